package polyglot;

import com.openai.core.http.StreamResponse;
import com.openai.models.responses.EasyInputMessage;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseStreamEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The official library on Responses. The gateway keeps no responses: `store` is false. */
final class OpenAiResponses implements Library {
  private final String base;

  OpenAiResponses(String base) {
    this.base = base;
  }

  private static ResponseCreateParams.Builder request(String model) {
    return ResponseCreateParams.builder().model(model).store(false);
  }

  private Response ask(String key, ResponseCreateParams.Builder asked) {
    return OpenAiChat.client(base, key).responses().create(asked.build());
  }

  private static String textOf(Response answer) {
    var text = new StringBuilder();
    for (var item : answer.output()) {
      item.message().ifPresent(message -> {
        for (var part : message.content()) part.outputText().ifPresent(said -> text.append(said.text()));
      });
    }
    return text.toString();
  }

  private static void count(Response answer, Map<String, Object> seen) {
    answer.usage().ifPresent(usage -> {
      seen.put("input", usage.inputTokens());
      seen.put("output", usage.outputTokens());
    });
  }

  @Override
  public void whole(String key, String model, Map<String, Object> seen) {
    Response answer = ask(key, request(model).input(HELLO));
    seen.put("text", textOf(answer));
    count(answer, seen);
  }

  @Override
  public void stream(String key, String model, Map<String, Object> seen) {
    var asked = request(model).input(HELLO).build();
    var completed = new boolean[1];
    try (StreamResponse<ResponseStreamEvent> events = OpenAiChat.client(base, key).responses().createStreaming(asked)) {
      events.stream().forEach(event -> {
        event.outputTextDelta().ifPresent(delta -> Library.piece(seen, delta.delta()));
        event.completed().ifPresent(end -> {
          completed[0] = true;
          count(end.response(), seen);
        });
        event.error().ifPresent(error -> {
          throw new IllegalStateException(error.message());
        });
        event.failed().ifPresent(end -> {
          throw new IllegalStateException(end.response().error().map(error -> error.message()).orElse("it failed"));
        });
      });
    }
    if (!completed[0]) throw new IllegalStateException("the stream has ended without response.completed");
  }

  @Override
  public void tools(String key, Map<String, Object> seen) throws Exception {
    List<ResponseInputItem> input = new ArrayList<>();
    input.add(ResponseInputItem.ofEasyInputMessage(
        EasyInputMessage.builder().role(EasyInputMessage.Role.USER).content(WEATHER).build()));
    var asked = request("tools").addTool(GetWeather.class);
    Response asking = ask(key, asked.inputOfResponse(input));
    var call = asking.output().stream().flatMap(item -> item.functionCall().stream()).findFirst().orElseThrow();
    seen.put("tool", call.name());
    Main.fill(seen, call.arguments());
    input.add(ResponseInputItem.ofFunctionCall(call));
    input.add(ResponseInputItem.ofFunctionCallOutput(
        ResponseInputItem.FunctionCallOutput.builder().callId(call.callId()).output(Library.sky(seen)).build()));
    seen.put("text", textOf(ask(key, asked.inputOfResponse(input))));
  }

  @Override
  public void structured(String key, Map<String, Object> seen) {
    var asked = request("structured").input(WEATHER).text(OpenAiChat.Report.class).build();
    var answer = OpenAiChat.client(base, key).responses().create(asked);
    OpenAiChat.Report report =
        answer.output().stream()
            .flatMap(item -> item.message().stream())
            .flatMap(message -> message.content().stream())
            .flatMap(part -> part.outputText().stream())
            .findFirst()
            .orElseThrow();
    seen.put("city", report.city);
    seen.put("celsius", report.celsius);
  }

  @Override
  public Integer status(Throwable error) {
    return OpenAiChat.statusOf(error);
  }
}
