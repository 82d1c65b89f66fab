//! Names to addresses: asked once for each hop, so that the address that was checked is the one that is called.

use async_trait::async_trait;
use std::net::IpAddr;

/// Who knows the addresses of a name.
#[async_trait]
pub trait Names: Send + Sync {
    /// All addresses of a host.
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The system's own resolver.
#[derive(Debug, Default)]
pub struct SystemNames;

#[async_trait]
impl Names for SystemNames {
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}
