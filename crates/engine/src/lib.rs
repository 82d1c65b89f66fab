//! The loops that fire, dispatch, work, recover and deliver; sees `punctual-core` only.
