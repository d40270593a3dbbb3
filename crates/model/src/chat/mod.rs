//! Conversations as prompts, rendered by the chat template that comes with a model.
//!
//! [`ChatTemplate::find`] reads the template of a model's folder and tries it on small conversations, so that
//! one which cannot work is refused when it is loaded. [`ChatTemplate::render`] makes a [`Prompt`] of a
//! [`ChatInput`], as the Python library that templates are written for would; [`Prompt::encode`] gives its ids.
//!
//! What people write never becomes a control token. Wherever the text of an added token stands in a message of
//! the user, the system or a tool, or in the definition of a tool, the template sees one private-use character
//! in its place, and that text is encoded as the characters that it is made of. What the model said earlier is
//! left alone, since templates look for `</think>` in it.
//!
//! | module | what it holds |
//! |---|---|
//! | `message`, `input` | a conversation, as an API receives it and as templates want it |
//! | `find` | the files of a folder that hold templates and the variables that they use |
//! | `environment`, `methods`, `json`, `clock` | Jinja as the templates' authors know it |
//! | `template`, `trial` | one model's template, and what it was seen to expect |
//! | `sentinel`, `prompt` | what must not be read as control tokens, and the text with that knowledge |

mod clock;
mod environment;
mod find;
mod input;
mod json;
mod message;
mod methods;
mod prompt;
mod sentinel;
mod template;
mod trial;

pub use clock::Clock;
pub use input::ChatInput;
pub use message::{Content, FunctionCall, Message, Role, ToolCall, ToolKind};
pub use prompt::{Prompt, REASONING, Segment};
pub use template::ChatTemplate;
