package org.apache.kafka.common.utils;

/** Where MirrorMaker of Kafka 4.3 looks for it. */
public final class Exit {
  public static void exit(int code) {
    org.apache.kafka.common.utils.internals.Exit.exit(code);
  }

  public static void addShutdownHook(String name, Runnable hook) {
    org.apache.kafka.common.utils.internals.Exit.addShutdownHook(name, hook);
  }

  private Exit() {}
}
