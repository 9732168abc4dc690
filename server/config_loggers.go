package server

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rootLogger is the only logger there is (KIP-412): what a broker logs has one level. It is
// changed on the broker itself, until it ends.
const rootLogger = "root"

// loggerLevels are the levels of Kafka, and what they are here.
var loggerLevels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError, "FATAL": slog.LevelError,
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
	v := configValue{name: rootLogger, value: c.Logging.Level().String(), source: kmsg.ConfigSourceDynamicBrokerLoggerConfig}
	return []configValue{v}
}

// alterLoggers changes levels, all that are named or none.
func (s *Server) alterLoggers(a alteration, validateOnly bool) error {
	if err := s.checkLogger(a.name); err != nil {
		return err
	}
	level := s.cfg.Logging.Level()
	for _, o := range a.ops {
		to, known := loggerLevels[strings.ToUpper(strings.TrimSpace(or(o.value, "")))]
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
			return fmt.Errorf("%w: there is no level %.200q", kerr.InvalidConfig, *o.value)
		}
		level = to
	}
	if !validateOnly && len(a.ops) > 0 {
		s.cfg.Logging.Set(level)
		s.log.Info("the level of the log is set", "level", level.String())
	}
	return nil
}
