//! Decides how something is promised that is mostly there at once: then nobody waits for it, and no
//! memory is taken to wait in.

use futures_util::future::{BoxFuture, Either, Ready, ready};

/// Something that is there at once, or later.
pub type Promised<'a, T> = Either<Ready<T>, BoxFuture<'a, T>>;

/// It is there.
pub fn at_once<T>(thing: T) -> Promised<'static, T> {
    Either::Left(ready(thing))
}

/// It must be waited for.
pub fn later<'a, T>(waiting: impl Future<Output = T> + Send + 'a) -> Promised<'a, T> {
    Either::Right(Box::pin(waiting))
}
