package polyglot;

import java.util.Map;

/** One client library: each method asks the model by its way, and puts what it saw into the line. */
interface Library {
  String HELLO = "Hello";
  String WEATHER = "What is the weather in Paris?";

  void whole(String key, String model, Map<String, Object> seen) throws Exception;

  void stream(String key, String model, Map<String, Object> seen) throws Exception;

  void tools(String key, Map<String, Object> seen) throws Exception;

  void structured(String key, Map<String, Object> seen) throws Exception;

  /** The HTTP status that the library's error has; null when it has none. */
  Integer status(Throwable error);

  /** What the tool get_weather says. */
  static String sky(Map<String, Object> seen) {
    return "clear over " + seen.get("city");
  }

  /** Adds a piece of a stream to the line. */
  static void piece(Map<String, Object> seen, String text) {
    if (text.isEmpty()) return;
    seen.merge("text", text, (before, more) -> before.toString() + more);
    seen.merge("pieces", 1, (before, one) -> (Integer) before + 1);
  }
}
