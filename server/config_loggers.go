package server

import (
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rootLogger is the only logger there is (KIP-412): what a broker logs has one level. It is
// changed on the broker itself, until it ends.
const rootLogger = "root"

// loggerLevels are the levels of Kafka, and what they are here. TRACE and FATAL let through
// what DEBUG and ERROR do, as nothing is logged at others, and have numbers of their own, by
// which they are shown.
var loggerLevels = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 1, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError, "FATAL": slog.LevelError - 1,
}

func levelName(level slog.Level) string {
	for name, l := range loggerLevels {
		if l == level {
			return name
		}
	}
	return level.String()
}

// onlyLoggers reports a change of loggers alone, which is the broker's own and no matter of
// the controller.
func onlyLoggers(msg kmsg.Request) bool {
	req, ok := msg.(*kmsg.IncrementalAlterConfigsRequest)
	if !ok || len(req.Resources) == 0 {
		return false
	}
	for i := range req.Resources {
		if req.Resources[i].ResourceType != kmsg.ConfigResourceTypeBrokerLogger {
			return false
		}
	}
	return true
}

// checkLogger judges the name of a broker whose loggers are asked for.
func (s *Server) checkLogger(name string) error {
	if name != s.cfg.id() {
		return fmt.Errorf("%w: %.100q is not this broker", kerr.InvalidRequest, name)
	}
	return nil
}

func (c *Config) describeLoggers() []configValue {
	v := configValue{name: rootLogger, value: levelName(c.Logging.Level()), source: kmsg.ConfigSourceDynamicBrokerLoggerConfig}
	return []configValue{v}
}

// alterLoggers changes levels, all that are named or none.
func (s *Server) alterLoggers(a alteration, validateOnly bool) error {
	if err := s.checkLogger(a.name); err != nil {
		return err
	}
	level := s.cfg.Logging.Level()
	for _, o := range a.ops {
		to, known := loggerLevels[or(o.value, "")]
		switch {
		case a.replace:
			return fmt.Errorf("%w: loggers are changed one by one", kerr.InvalidRequest)
		case o.op != kmsg.IncrementalAlterConfigOpSet && o.op != kmsg.IncrementalAlterConfigOpDelete:
			return fmt.Errorf("%w: a level is no list", kerr.InvalidRequest)
		case o.name != rootLogger:
			return fmt.Errorf("%w: there is no logger %.200q", kerr.InvalidConfig, o.name)
		case o.op == kmsg.IncrementalAlterConfigOpDelete:
			return fmt.Errorf("%w: the root logger needs a level", kerr.InvalidRequest)
		case !known:
			return fmt.Errorf("%w: there is no level %.200q", kerr.InvalidConfig, or(o.value, ""))
		}
		level = to
	}
	if !validateOnly && len(a.ops) > 0 {
		s.cfg.Logging.Set(level)
		s.log.Info("the level of the log is set", "level", levelName(level))
	}
	return nil
}
