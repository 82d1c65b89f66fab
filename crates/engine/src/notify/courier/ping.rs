//! A plain call that says that all is well.

use crate::targets::http::Request;
use reqwest::Method;

/// A GET without anything in it.
pub(super) fn request(url: &str) -> Result<Request, String> {
    Request::new(Method::GET, url, Vec::new()).map_err(|refused| refused.to_string())
}
