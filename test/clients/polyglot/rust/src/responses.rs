//! The library on Responses. The gateway keeps no responses: `store` is false.

use crate::{city, client, fill, report, sky, typed, Answer, Failure, Seen, HELLO, WEATHER};
use async_openai::types::responses::{CreateResponse, OutputItem, Response, ResponseStreamEvent};
use futures::StreamExt;
use serde_json::{json, Value};

fn request(model: &str, text: &str, more: Value) -> Value {
    let input = json!([{ "type": "message", "role": "user", "content": text }]);
    let mut request = json!({ "model": model, "store": false, "input": input });
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

async fn ask(key: &str, request: Value) -> Result<Response, Failure> {
    Ok(client(key).responses().create(typed::<CreateResponse>(request)?).await?)
}

fn count(seen: &mut Seen, response: &Response) {
    if let Some(usage) = &response.usage {
        seen.insert("input".into(), json!(usage.input_tokens));
        seen.insert("output".into(), json!(usage.output_tokens));
    }
}

pub async fn whole(key: &str, model: &str, seen: &mut Seen) -> Answer {
    let answer = ask(key, request(model, HELLO, json!({}))).await?;
    seen.insert("text".into(), json!(answer.output_text()));
    count(seen, &answer);
    Ok(())
}

pub async fn stream(key: &str, model: &str, seen: &mut Seen) -> Answer {
    let asked: CreateResponse = typed(request(model, HELLO, json!({ "stream": true })))?;
    let mut events = client(key).responses().create_stream(asked).await?;
    let (mut text, mut pieces) = (String::new(), 0);
    while let Some(event) = events.next().await {
        match event? {
            ResponseStreamEvent::ResponseOutputTextDelta(event) => {
                pieces += 1;
                text.push_str(&event.delta);
                seen.insert("text".into(), json!(text));
                seen.insert("pieces".into(), json!(pieces));
            }
            ResponseStreamEvent::ResponseCompleted(event) => {
                count(seen, &event.response);
                return Ok(());
            }
            ResponseStreamEvent::ResponseError(event) => return Err(Failure::Said(event.message)),
            ResponseStreamEvent::ResponseFailed(event) => {
                return Err(Failure::Said(format!("{:?}", event.response.error)));
            }
            _ => {}
        }
    }
    Err(Failure::Said("the stream has ended without response.completed".into()))
}

pub async fn tools(key: &str, seen: &mut Seen) -> Answer {
    let tool = json!({ "type": "function", "name": "get_weather", "parameters": city(), "strict": true });
    let mut asked = request("tools", WEATHER, json!({ "tools": [tool] }));
    let asking = ask(key, asked.clone()).await?;
    let call = asking.output.iter().find_map(|item| match item {
        OutputItem::FunctionCall(call) => Some(call),
        _ => None,
    });
    let Some(call) = call else { return Err(Failure::Said("there is no call".into())) };
    seen.insert("tool".into(), json!(call.name));
    fill(seen, &call.arguments)?;
    let result = json!({ "type": "function_call_output", "call_id": call.call_id, "output": sky(seen) });
    let said = json!({ "type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments });
    asked["input"].as_array_mut().expect("it is a list").extend([said, result]);
    seen.insert("text".into(), json!(ask(key, asked).await?.output_text()));
    Ok(())
}

pub async fn structured(key: &str, seen: &mut Seen) -> Answer {
    let format = json!({ "type": "json_schema", "name": "report", "schema": report(), "strict": true });
    let answer = ask(key, request("structured", WEATHER, json!({ "text": { "format": format } }))).await?;
    fill(seen, &answer.output_text().unwrap_or_default())
}
