package polyglot;

import java.util.Map;

/** One client library: each method sends a request in its own way and adds the result to the line. */
interface Library {
  String HELLO = "Hello";
  String WEATHER = "What is the weather in Paris?";

  void whole(String key, String model, Map<String, Object> seen) throws Exception;

  void stream(String key, String model, Map<String, Object> seen) throws Exception;

  void tools(String key, Map<String, Object> seen) throws Exception;

  void structured(String key, Map<String, Object> seen) throws Exception;

  /** The HTTP status of the library's error; null if it has none. */
  Integer status(Throwable error);

  /** The result of the tool get_weather. */
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
