//! Points async-openai at the gateway of TOLLGATE_URL, with the keys TOLLGATE_KEY, TOLLGATE_POOR_KEY and
//! TOLLGATE_WRONG_KEY. Prints one JSON line per feature with the library's result.

mod chat;
mod responses;

use async_openai::{config::OpenAIConfig, error::OpenAIError, Client};
use serde::de::DeserializeOwned;
use serde_json::{json, Map, Value};
use std::{env, time::Duration};
use tokio::time::timeout;

pub const HELLO: &str = "Hello";
pub const WEATHER: &str = "What is the weather in Paris?";

const PATIENCE: Duration = Duration::from_secs(20);

pub type Seen = Map<String, Value>;
pub type Answer = Result<(), Failure>;

/// An error of the library, or a stream that reports a failure.
pub enum Failure {
    Library(OpenAIError),
    Said(String),
}

impl From<OpenAIError> for Failure {
    fn from(error: OpenAIError) -> Self {
        Failure::Library(error)
    }
}

impl Failure {
    fn status(&self) -> Value {
        match self {
            Failure::Library(OpenAIError::ApiError(refused)) => json!(refused.status_code.as_u16()),
            _ => Value::Null,
        }
    }

    fn words(&self) -> String {
        match self {
            Failure::Library(error) => error.to_string(),
            Failure::Said(words) => words.clone(),
        }
    }
}

pub fn client(key: &str) -> Client<OpenAIConfig> {
    let base = format!("{}/v1", variable("TOLLGATE_URL"));
    Client::with_config(OpenAIConfig::new().with_api_base(base).with_api_key(key))
}

pub fn city() -> Value {
    json!({
        "type": "object",
        "properties": { "city": { "type": "string" } },
        "required": ["city"],
        "additionalProperties": false
    })
}

pub fn report() -> Value {
    json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "celsius": { "type": "integer" } },
        "required": ["city", "celsius"],
        "additionalProperties": false
    })
}

/// The result of the tool get_weather.
pub fn sky(seen: &Seen) -> String {
    format!("clear over {}", seen["city"].as_str().unwrap_or("nowhere"))
}

/// Adds the members of a JSON object to the line: the arguments of a call, or a structured answer.
pub fn fill(seen: &mut Seen, text: &str) -> Answer {
    match serde_json::from_str::<Seen>(text) {
        Ok(members) => {
            seen.extend(members);
            Ok(())
        }
        Err(error) => Err(Failure::Said(format!("{text} is no object: {error}"))),
    }
}

/// The library's request type, from the JSON form of the API's documentation.
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::Said(error.to_string()))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

async fn tell(feature: &str, ask: impl AsyncFnOnce(&mut Seen) -> Answer) {
    let mut seen = Map::new();
    seen.insert("feature".into(), json!(feature));
    if let Err(failure) = ask(&mut seen).await {
        seen.insert("error".into(), json!(failure.words()));
        seen.insert("status".into(), failure.status());
    }
    println!("{}", Value::Object(seen));
}

macro_rules! features {
    ($library:ident) => {{
        let key = variable("TOLLGATE_KEY");
        tell("whole", async |seen| $library::whole(&key, "m", seen).await).await;
        tell("stream", async |seen| $library::stream(&key, "m", seen).await).await;
        tell("tools", async |seen| $library::tools(&key, seen).await).await;
        tell("structured", async |seen| $library::structured(&key, seen).await).await;
        let (wrong, poor) = (variable("TOLLGATE_WRONG_KEY"), variable("TOLLGATE_POOR_KEY"));
        tell("wrong_key", async |seen| $library::whole(&wrong, "m", seen).await).await;
        tell("no_credit", async |seen| $library::whole(&poor, "m", seen).await).await;
        tell("limited", async |seen| {
            // It waits as long as Retry-After demands: an hour.
            let answer = timeout(PATIENCE, $library::whole(&key, "limited", seen)).await;
            answer.unwrap_or_else(|_| {
                seen.insert("waits".into(), json!(true));
                Ok(())
            })
        })
        .await;
        tell("no_model", async |seen| $library::whole(&key, "nothing", seen).await).await;
        tell("cut", async |seen| $library::stream(&key, "breaks", seen).await).await;
    }};
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    match env::args().nth(1).as_deref() {
        Some("async-openai") => features!(chat),
        Some("async-openai-responses") => features!(responses),
        other => panic!("there is no library {other:?}"),
    }
}
