//! The library on chat completions.

use crate::{city, client, fill, report, sky, typed, Answer, Failure, Seen, HELLO, WEATHER};
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionResponseMessage, CreateChatCompletionRequest,
};
use futures::StreamExt;
use serde_json::{json, Value};

fn request(model: &str, text: &str, more: Value) -> Value {
    let mut request = json!({ "model": model, "messages": [{ "role": "user", "content": text }] });
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

async fn message(key: &str, request: Value) -> Result<ChatCompletionResponseMessage, Failure> {
    let answer = client(key).chat().create(typed::<CreateChatCompletionRequest>(request)?).await?;
    answer.choices.into_iter().next().map(|choice| choice.message).ok_or(Failure::Said("no choice".into()))
}

pub async fn whole(key: &str, model: &str, seen: &mut Seen) -> Answer {
    let asked: CreateChatCompletionRequest = typed(request(model, HELLO, json!({})))?;
    let answer = client(key).chat().create(asked).await?;
    seen.insert("text".into(), json!(answer.choices[0].message.content));
    if let Some(usage) = answer.usage {
        seen.insert("input".into(), json!(usage.prompt_tokens));
        seen.insert("output".into(), json!(usage.completion_tokens));
    }
    Ok(())
}

pub async fn stream(key: &str, model: &str, seen: &mut Seen) -> Answer {
    let options = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let asked: CreateChatCompletionRequest = typed(request(model, HELLO, options))?;
    let mut chunks = client(key).chat().create_stream(asked).await?;
    let (mut text, mut pieces) = (String::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if let Some(piece) = chunk.choices.first().and_then(|choice| choice.delta.content.as_deref()) {
            pieces += usize::from(!piece.is_empty());
            text.push_str(piece);
        }
        if let Some(usage) = chunk.usage {
            seen.insert("input".into(), json!(usage.prompt_tokens));
            seen.insert("output".into(), json!(usage.completion_tokens));
        }
        seen.insert("text".into(), json!(text));
        seen.insert("pieces".into(), json!(pieces));
    }
    Ok(())
}

pub async fn tools(key: &str, seen: &mut Seen) -> Answer {
    let tool = json!({ "type": "function", "function": { "name": "get_weather", "parameters": city(), "strict": true } });
    let mut asked = request("tools", WEATHER, json!({ "tools": [tool] }));
    let asking = message(key, asked.clone()).await?;
    let call = match asking.tool_calls.as_deref() {
        Some([ChatCompletionMessageToolCalls::Function(call)]) => call,
        _ => return Err(Failure::Said("there is no call".into())),
    };
    seen.insert("tool".into(), json!(call.function.name));
    fill(seen, &call.function.arguments)?;
    let result = json!({ "role": "tool", "tool_call_id": call.id, "content": sky(seen) });
    let said = json!({ "role": "assistant", "tool_calls": asking.tool_calls });
    asked["messages"].as_array_mut().expect("it is a list").extend([said, result]);
    seen.insert("text".into(), json!(message(key, asked).await?.content));
    Ok(())
}

pub async fn structured(key: &str, seen: &mut Seen) -> Answer {
    let schema = json!({ "name": "report", "schema": report(), "strict": true });
    let format = json!({ "response_format": { "type": "json_schema", "json_schema": schema } });
    let answer = message(key, request("structured", WEATHER, format)).await?;
    fill(seen, answer.content.as_deref().unwrap_or_default())
}
