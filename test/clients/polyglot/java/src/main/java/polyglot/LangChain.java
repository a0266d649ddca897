package polyglot;

import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.HttpException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** LangChain for Java. */
final class LangChain implements Library {
  private final String base;

  LangChain(String base) {
    this.base = base;
  }

  private ChatModel model(String key, String model) {
    return OpenAiChatModel.builder().baseUrl(base).apiKey(key).modelName(model).build();
  }

  private static void count(ChatResponse answer, Map<String, Object> seen) {
    var usage = answer.tokenUsage();
    if (usage == null) return;
    seen.put("input", usage.inputTokenCount());
    seen.put("output", usage.outputTokenCount());
  }

  @Override
  public void whole(String key, String model, Map<String, Object> seen) {
    ChatResponse answer = model(key, model).chat(UserMessage.from(HELLO));
    seen.put("text", answer.aiMessage().text());
    count(answer, seen);
  }

  @Override
  public void stream(String key, String model, Map<String, Object> seen) throws Exception {
    var streaming = OpenAiStreamingChatModel.builder().baseUrl(base).apiKey(key).modelName(model).build();
    var whole = new CompletableFuture<ChatResponse>();
    streaming.chat(
        ChatRequest.builder().messages(UserMessage.from(HELLO)).build(),
        new StreamingChatResponseHandler() {
          @Override
          public void onPartialResponse(String text) {
            Library.piece(seen, text);
          }

          @Override
          public void onCompleteResponse(ChatResponse answer) {
            whole.complete(answer);
          }

          @Override
          public void onError(Throwable error) {
            whole.completeExceptionally(error);
          }
        });
    try {
      count(whole.get(), seen);
    } catch (ExecutionException failed) {
      throw failed.getCause() instanceof Exception error ? error : failed;
    }
  }

  @Override
  public void tools(String key, Map<String, Object> seen) throws Exception {
    var parameters = JsonObjectSchema.builder().addStringProperty("city").required("city").build();
    var tool = ToolSpecification.builder().name("get_weather").parameters(parameters).build();
    var question = UserMessage.from(WEATHER);
    var model = model(key, "tools");
    var asking = model.chat(ChatRequest.builder().messages(question).toolSpecifications(tool).build()).aiMessage();
    var call = asking.toolExecutionRequests().get(0);
    seen.put("tool", call.name());
    Main.fill(seen, call.arguments());
    var result = ToolExecutionResultMessage.from(call, Library.sky(seen));
    var answer = model.chat(ChatRequest.builder().messages(question, asking, result).toolSpecifications(tool).build());
    seen.put("text", answer.aiMessage().text());
  }

  @Override
  public void structured(String key, Map<String, Object> seen) throws Exception {
    var report =
        JsonObjectSchema.builder()
            .addStringProperty("city")
            .addIntegerProperty("celsius")
            .required("city", "celsius")
            .build();
    var format =
        ResponseFormat.builder()
            .type(ResponseFormatType.JSON)
            .jsonSchema(JsonSchema.builder().name("report").rootElement(report).build())
            .build();
    var asked = ChatRequest.builder().messages(UserMessage.from(WEATHER)).responseFormat(format).build();
    Main.fill(seen, model(key, "structured").chat(asked).aiMessage().text());
  }

  /** Its own error wraps the one with the status. */
  @Override
  public Integer status(Throwable error) {
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof HttpException refused) return refused.statusCode();
    }
    return null;
  }
}
