package polyglot;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Points one client library for Java at the gateway of TOLLGATE_URL, with the keys TOLLGATE_KEY, TOLLGATE_POOR_KEY and
 * TOLLGATE_WRONG_KEY. Prints one JSON line per feature with the library's result.
 */
public final class Main {
  private static final ObjectMapper JSON = new ObjectMapper();

  private interface Ask {
    void run(Map<String, Object> seen) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    String base = System.getenv("TOLLGATE_URL") + "/v1";
    Library library =
        switch (arguments[0]) {
          case "openai-java" -> new OpenAiChat(base);
          case "openai-java-responses" -> new OpenAiResponses(base);
          case "langchain4j" -> new LangChain(base);
          default -> throw new IllegalArgumentException("there is no library " + arguments[0]);
        };
    String key = System.getenv("TOLLGATE_KEY");
    tell(library, "whole", seen -> library.whole(key, "m", seen));
    tell(library, "stream", seen -> library.stream(key, "m", seen));
    tell(library, "tools", seen -> library.tools(key, seen));
    tell(library, "structured", seen -> library.structured(key, seen));
    tell(library, "wrong_key", seen -> library.whole(System.getenv("TOLLGATE_WRONG_KEY"), "m", seen));
    tell(library, "no_credit", seen -> library.whole(System.getenv("TOLLGATE_POOR_KEY"), "m", seen));
    tell(library, "limited", seen -> library.whole(key, "limited", seen));
    tell(library, "no_model", seen -> library.whole(key, "nothing", seen));
    tell(library, "cut", seen -> library.stream(key, "breaks", seen));
    // The libraries' threads would keep the program alive for a minute.
    System.exit(0);
  }

  /** Adds the members of a JSON object to the line: the arguments of a call, or a structured answer. */
  @SuppressWarnings("unchecked")
  static void fill(Map<String, Object> seen, String text) throws Exception {
    seen.putAll(JSON.readValue(text, Map.class));
  }

  private static void tell(Library library, String feature, Ask ask) throws Exception {
    Map<String, Object> seen = new LinkedHashMap<>();
    seen.put("feature", feature);
    try {
      ask.run(seen);
    } catch (Exception error) {
      seen.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
      seen.put("status", library.status(error));
    }
    System.out.println(JSON.writeValueAsString(seen));
  }
}
