package org.apache.kafka.common.utils;

/** Where connectors of Kafka 4.3 look for it. */
public final class AppInfoParser {
  public static String getVersion() {
    return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
  }

  private AppInfoParser() {}
}
