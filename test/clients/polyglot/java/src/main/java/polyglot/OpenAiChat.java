package polyglot;

import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.errors.OpenAIServiceException;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionMessage;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import java.util.Map;

/** The official library on chat completions. */
final class OpenAiChat implements Library {
  /** A structured answer; the library derives its schema from the fields. */
  public static class Report {
    public String city;
    public int celsius;
  }

  private final String base;

  OpenAiChat(String base) {
    this.base = base;
  }

  static OpenAIClient client(String base, String key) {
    return OpenAIOkHttpClient.builder().baseUrl(base).apiKey(key).build();
  }

  static Integer statusOf(Throwable error) {
    return error instanceof OpenAIServiceException refused ? refused.statusCode() : null;
  }

  private static ChatCompletionCreateParams.Builder request(String model, String text) {
    return ChatCompletionCreateParams.builder().model(model).addUserMessage(text);
  }

  @Override
  public void whole(String key, String model, Map<String, Object> seen) {
    var answer = client(base, key).chat().completions().create(request(model, HELLO).build());
    seen.put("text", answer.choices().get(0).message().content().orElse(null));
    answer.usage().ifPresent(usage -> {
      seen.put("input", usage.promptTokens());
      seen.put("output", usage.completionTokens());
    });
  }

  @Override
  public void stream(String key, String model, Map<String, Object> seen) {
    var options = ChatCompletionStreamOptions.builder().includeUsage(true).build();
    var asked = request(model, HELLO).streamOptions(options).build();
    try (StreamResponse<ChatCompletionChunk> chunks = client(base, key).chat().completions().createStreaming(asked)) {
      chunks.stream().forEach(chunk -> {
        for (var choice : chunk.choices()) Library.piece(seen, choice.delta().content().orElse(""));
        chunk.usage().ifPresent(usage -> {
          seen.put("input", usage.promptTokens());
          seen.put("output", usage.completionTokens());
        });
      });
    }
  }

  @Override
  public void tools(String key, Map<String, Object> seen) throws Exception {
    var completions = client(base, key).chat().completions();
    var asked = request("tools", WEATHER).addTool(GetWeather.class);
    ChatCompletionMessage asking = completions.create(asked.build()).choices().get(0).message();
    var call = asking.toolCalls().orElseThrow().get(0).asFunction();
    seen.put("tool", call.function().name());
    Main.fill(seen, call.function().arguments());
    var result = ChatCompletionToolMessageParam.builder().toolCallId(call.id()).content(Library.sky(seen)).build();
    var answer = completions.create(asked.addMessage(asking).addMessage(result).build());
    seen.put("text", answer.choices().get(0).message().content().orElse(null));
  }

  @Override
  public void structured(String key, Map<String, Object> seen) {
    var asked = request("structured", WEATHER).responseFormat(Report.class).build();
    Report report = client(base, key).chat().completions().create(asked).choices().get(0).message().content().orElseThrow();
    seen.put("city", report.city);
    seen.put("celsius", report.celsius);
  }

  @Override
  public Integer status(Throwable error) {
    return statusOf(error);
  }
}
