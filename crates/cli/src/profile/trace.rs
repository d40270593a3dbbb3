//! The trace that `chrome://tracing` and <https://ui.perfetto.dev> show.

use serde::Serialize;
use serde_json::{Value, json};

use super::summary::Summary;
use super::times::{Timed, Times};

/// The file: events as the trace format has them, and the sums beside them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trace {
    trace_events: Vec<Value>,
    display_time_unit: &'static str,
    #[serde(rename = "summary")]
    summary: Summary,
}

impl Trace {
    /// One event a step and, within it, one an operation; times are in microseconds from the beginning. The operations
    /// of a step follow each other from its submission on.
    pub(super) fn of(times: &Times, summary: Summary) -> Trace {
        let name =
            json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": times.device}});
        let mut trace_events = vec![name];
        for step in &times.steps {
            step_events(times, step, &mut trace_events);
        }
        Trace { trace_events, display_time_unit: "ms", summary }
    }
}

fn step_events(times: &Times, step: &Timed, events: &mut Vec<Value>) {
    let event = |name: &str, category: &str, begin: f64, duration: f64, args: Value| json!({"name": name, "cat": category, "ph": "X", "ts": begin, "dur": duration, "pid": 1, "tid": 1, "args": args});
    let microseconds = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let shape = step.shape;
    let args = json!({"rows": shape.tokens, "outputs": shape.outputs, "attended": shape.attended});
    let plural = if shape.tokens == 1 { "" } else { "s" };
    let name = format!("step of {} row{plural}", shape.tokens);
    let mut begin = microseconds(step.begin);
    events.push(event(&name, "step", begin, microseconds(step.wall), args));
    let Some(ops) = times.programs.get(&step.program) else { return };
    for ((_, label), time) in ops.iter().zip(&step.times) {
        let duration = microseconds(*time);
        let args = json!({"layer": label.layer, "part": label.part});
        events.push(event(label.op, "operation", begin, duration, args));
        begin += duration;
    }
}
