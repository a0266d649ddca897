package polyglot;

import com.fasterxml.jackson.annotation.JsonClassDescription;
import com.fasterxml.jackson.annotation.JsonTypeName;

/** The tool get_weather; the library derives its schema from the fields. */
@JsonTypeName("get_weather")
@JsonClassDescription("The weather of a city.")
public class GetWeather {
  public String city;
}
