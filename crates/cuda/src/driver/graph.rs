//! Graphs: a list of launches that the device repeats by itself. Events: points in time.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{result, sys};
use program::Result;

use super::{Context, while_doing};

/// Captured launches, ready to be repeated.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<Context>,
    graph: sys::CUgraphExec,
}

// SAFETY: the driver lets any thread use a graph whose context it has entered, one at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `launches` starts, which runs nothing.
    ///
    /// # Errors
    /// What `launches` gives, or if the driver refuses.
    pub(crate) fn capture(context: &Arc<Context>, launches: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the context, and the capture ends below in any case.
        unsafe { result::stream::begin_capture(context.stream(), mode) }
            .map_err(while_doing("capturing a step"))?;
        let launched = launches();
        // SAFETY: the capture was begun above.
        let recorded = unsafe { result::stream::end_capture(context.stream()) };
        launched?;
        let recorded = recorded.map_err(while_doing("capturing a step"))?;
        let mut graph = ptr::null_mut();
        // SAFETY: `recorded` was given by the driver; the instance does not need it afterwards.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&mut graph, recorded, 0).result();
            let _ = result::graph::destroy(recorded);
            made
        };
        made.map_err(while_doing("making a graph of a step"))?;
        Ok(Graph { context: context.clone(), graph })
    }

    /// Starts all of it.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn launch(&self) -> Result<()> {
        // SAFETY: graph and stream live as long as `self`.
        unsafe { result::graph::launch(self.graph, self.context.stream()) }
            .map_err(while_doing("starting a step"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.context.enter();
        let _ = self.context.synchronize();
        // SAFETY: made in `capture`, and not running any more.
        let _ = unsafe { result::graph::exec_destroy(self.graph) };
    }
}

/// A point in the order of what the device does.
#[derive(Debug)]
pub(crate) struct Event {
    context: Arc<Context>,
    event: sys::CUevent,
}

// SAFETY: the driver lets any thread use an event whose context it has entered.
unsafe impl Send for Event {}

impl Event {
    /// An event that was not reached yet; times are taken.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(while_doing("making an event"))?;
        Ok(Event { context: context.clone(), event })
    }

    /// Lies behind all that was started until now.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn record(&self) -> Result<()> {
        // SAFETY: event and stream live as long as `self`.
        unsafe { result::event::record(self.event, self.context.stream()) }
            .map_err(while_doing("recording an event"))
    }

    /// The time from this event to `later`, both of which were reached.
    ///
    /// # Errors
    /// If one was not.
    pub(crate) fn until(&self, later: &Event) -> Result<Duration> {
        // SAFETY: both events are alive and were recorded on the one stream.
        let milliseconds = unsafe { result::event::elapsed(self.event, later.event) };
        let milliseconds = milliseconds.map_err(while_doing("measuring time"))?;
        Ok(Duration::from_secs_f32(milliseconds.max(0.0) / 1e3))
    }

    /// Waits until the device is there.
    ///
    /// # Errors
    /// What went wrong on the device since the last time.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event lives as long as `self`.
        unsafe { result::event::synchronize(self.event) }.map_err(while_doing("waiting for a step"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: made in `new`; the driver lets an event be destroyed before it is reached.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}
