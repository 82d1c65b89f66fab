//! TLS as `sslmode` asks for it: none, encryption, a trusted certificate, or a trusted certificate of the right host.

use punctual_core::invalid::Invalid;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How far the server's certificate is trusted; the words are those of `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// `prefer` and `require`: encrypted, whoever it is.
    Anyone,
    /// `verify-ca`: issued by a trusted authority.
    Authority,
    /// `verify-full`: and for this host.
    Host,
}

/// What connections are made with.
pub(crate) fn connector(trust: Trust, root_cert: Option<&Path>) -> Result<MakeRustlsConnect, Invalid> {
    let refused = |error: Error| Invalid::new("sslmode", format!("cannot be set up: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anyone => Arc::new(Unverified(provider)),
        Trust::Authority | Trust::Host => {
            let roots = Arc::new(roots(root_cert)?);
            let built = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
            let strict = built.map_err(|error| Invalid::new("sslrootcert", format!("cannot be used: {error}")))?;
            if trust == Trust::Host { strict } else { Arc::new(AnyHost(strict)) }
        }
    };
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(root_cert: Option<&Path>) -> Result<RootCertStore, Invalid> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = root_cert {
        let refused = |error: &dyn std::fmt::Display| {
            Invalid::new("sslrootcert", format!("{} cannot be read: {error}", path.display()))
                .remedy("name a file with certificates in PEM form")
        };
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))? {
            roots.add(certificate.map_err(|error| refused(&error))?).map_err(|error| refused(&error))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

/// Encryption without a look at the certificate: what `require` means everywhere else, too.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: &ServerName<'_>, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A trusted certificate, of whichever host.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self, end: &CertificateDer<'_>, between: &[CertificateDer<'_>], name: &ServerName<'_>, ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The chain is checked before the name, so a wrong name means that the chain was right.
        match self.0.verify_server_cert(end, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
