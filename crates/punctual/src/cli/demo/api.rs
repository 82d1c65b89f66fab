//! The way into the demo from outside: where its API listens, and the links that lead to it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use punctual_core::store::Store;
use punctual_server::{PublicBind, Settings, check_bind, first_admin_token, login_link};

use super::super::Stop;
use super::super::data::{DataFolder, Serving};
use super::super::serve::{Api, Socket};
use super::Links;

/// Where it listens unless somebody says otherwise.
const USUAL: &str = "127.0.0.1:7878";

/// The API before it serves.
pub(super) struct Door(TcpListener);

/// The API while it serves.
pub(super) struct OpenDoor {
    pub(super) links: Links,
    api: Api,
    _serving: Serving,
}

impl Door {
    /// Listens where it was told to, or where it usually does, or, when that is taken, wherever there is room.
    pub(super) fn bind(listen: Option<SocketAddr>) -> Result<Door, Stop> {
        if let Some(address) = listen {
            check_bind(address, PublicBind::Refused).map_err(|refused| Stop::usage(refused.to_string()))?;
        }
        let bound = match listen {
            Some(address) => TcpListener::bind(address),
            None => TcpListener::bind(USUAL).or_else(|error| match error.kind() {
                ErrorKind::AddrInUse => TcpListener::bind("127.0.0.1:0"),
                _ => Err(error),
            }),
        };
        let wanted = listen.map_or_else(|| USUAL.to_owned(), |address| address.to_string());
        bound.map(Door).map_err(|error| {
            Stop::failure(format!("cannot listen on {wanted}: {error}; choose another address with --listen"))
        })
    }

    /// Begins to serve a store in a folder, and tells those who come to the folder.
    pub(super) async fn open(self, store: &Arc<dyn Store>, folder: &Path) -> Result<OpenDoor, Stop> {
        let folder = DataFolder::open(Some(folder))?;
        let serving = folder.hold()?;
        let secret = first_admin_token(store.as_ref()).await?;
        let secret = secret.ok_or_else(|| Stop::failure("the demo's store has a token already"))?;
        folder.keep_admin_token(secret.reveal())?;
        let socket = Socket { listener: self.0, tls: None };
        let api = Api::start(Arc::clone(store), socket, Settings::default(), Vec::new(), &folder).await?;
        folder.tell(&folder.database_url(), api.url())?;
        let links = Links {
            url: api.url().to_owned(),
            sign_in: login_link(api.url(), &secret),
            token: secret.reveal().to_owned(),
        };
        Ok(OpenDoor { links, api, _serving: serving })
    }
}

impl OpenDoor {
    /// Takes no more requests.
    pub(super) async fn close(self) {
        self.api.stop().await;
    }
}
