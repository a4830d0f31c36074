//! A loopback HTTP/1.1 server on its own thread, whose connections can be cut on command.
//!
//! axum's own `serve` hides the socket; refusing to answer, or answering with a TCP reset, needs it.
//! So connections are served here with hyper, and every request carries a [`ConnectionSwitch`] by
//! which a handler ends the connection instead of letting its response out.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

const KEEP: u8 = 0;
const CLOSE: u8 = 1;
const RESET: u8 = 2;

/// Ends the connection a request came on, in place of the response.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSwitch(Arc<AtomicU8>);

impl ConnectionSwitch {
    /// Closes the connection (TCP FIN) before a byte of the response is written.
    pub fn close(&self) {
        self.0.store(CLOSE, Ordering::Release);
    }

    /// Aborts the connection (TCP RST) before a byte of the response is written.
    pub fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }
}

/// A running server. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `router` on `127.0.0.1:port`; port 0 picks a free one.
    pub fn start(port: u16, router: Router) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("emulator-{}", address.port()))
            .spawn(move || runtime.block_on(accept(listener, router, stopped)))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server thread has been printed by then; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// Accepts until `stopped` is dropped; the runtime's end then drops what is still being served.
async fn accept(listener: std::net::TcpListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(serve_connection(stream, router.clone()));
                }
                // Out of file descriptors: wait for some to come back.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    // Small answers; waiting for more to fill a segment would add 40 ms to each.
    let _ = stream.set_nodelay(true);
    let switch = ConnectionSwitch::default();
    let io = TokioIo::new(Switched { stream, switch: switch.clone() });
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(switch.clone());
        router.clone().oneshot(request)
    });
    // An error here is the client going away or a fault we made ourselves.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

/// A stream that refuses to write once its switch is thrown, which makes hyper drop it.
struct Switched {
    stream: TcpStream,
    switch: ConnectionSwitch,
}

impl Switched {
    fn check(&self) -> io::Result<()> {
        match self.switch.0.load(Ordering::Acquire) {
            KEEP => Ok(()),
            RESET => {
                self.stream.set_zero_linger()?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl AsyncRead for Switched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Switched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
