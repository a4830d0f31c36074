//! Fakes of the ports: in memory, deterministic, always ready. For tests of this and other crates.
#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a fake stops the test that uses it wrongly")]

mod outside;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub use self::outside::{AnySignature, FakeOutside};
use super::{HttpClient, HttpError, HttpRequest, HttpResponse};

/// What a fake call ends in.
pub type Answer = Result<HttpResponse, HttpError>;

type Answers = Box<dyn FnMut(&HttpRequest) -> Answer>;

/// An [`HttpClient`] that keeps what it was asked and answers as told.
pub struct FakeHttp {
    sent: RefCell<Vec<HttpRequest>>,
    answers: RefCell<Answers>,
}

impl FakeHttp {
    /// Answers by a function of the request.
    pub fn answering(answers: impl FnMut(&HttpRequest) -> Answer + 'static) -> Self {
        Self { sent: RefCell::default(), answers: RefCell::new(Box::new(answers)) }
    }

    /// Answers in this order. A call more than answers fails the test: with none, any call does.
    pub fn script(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: VecDeque<Answer> = answers.into_iter().collect();
        Self::answering(move |request| {
            answers.pop_front().unwrap_or_else(|| panic!("a call that nobody expected: {}", request.url))
        })
    }

    /// Every request so far, in order.
    pub fn sent(&self) -> Vec<HttpRequest> {
        self.sent.borrow().clone()
    }
}

impl fmt::Debug for FakeHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeHttp").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl HttpClient for FakeHttp {
    async fn send(&self, request: &HttpRequest) -> Answer {
        self.sent.borrow_mut().push(request.clone());
        (self.answers.borrow_mut())(request)
    }
}

/// An answer with a content type.
pub fn response(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> HttpResponse {
    HttpResponse { status, content_type: Some(content_type.to_owned()), cache_control: None, body: body.into() }
}

/// Runs a future that only ever waits for fakes: it is ready at once.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future over fakes waits for something else"),
    }
}
