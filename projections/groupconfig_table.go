package projections

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	noShareGroups   = "Without effect: there are no share groups."
	noStreamsGroups = "Without effect: there are no streams groups."
)

// groupSettings is every name that Kafka 4.4 knows, in order. The bounds of what is
// without effect are those that Kafka's brokers have by default.
var groupSettings = []GroupSetting{
	{"consumer.assignment.interval.ms", "1000", kmsg.ConfigTypeInt, "group.consumer.assignment.interval.ms", false,
		"Without effect: a new assignment is made as soon as there is cause for it.", integer(32, 0, 15_000)},
	{"consumer.assignor.offload.enable", "true", kmsg.ConfigTypeBoolean, "", false,
		"Without effect: assignments are made where the group is.", boolean},
	{GroupHeartbeatInterval, "5000", kmsg.ConfigTypeInt, "group.consumer.heartbeat.interval.ms", true,
		"How often a member is to send a heartbeat, in milliseconds.", int32s(1)},
	{GroupSessionTimeout, "45000", kmsg.ConfigTypeInt, "group.consumer.session.timeout.ms", true,
		"A member that sends no heartbeat for so many milliseconds is taken for dead.", int32s(1)},
	{"errors.deadletterqueue.copy.record.enable", "false", kmsg.ConfigTypeBoolean, "", false, noShareGroups, boolean},
	{"errors.deadletterqueue.topic.name", "", kmsg.ConfigTypeString, "", false, noShareGroups, deadLetterTopic},
	{"share.assignment.interval.ms", "1000", kmsg.ConfigTypeInt, "group.share.assignment.interval.ms", false, noShareGroups, integer(32, 0, 15_000)},
	{"share.assignor.offload.enable", "true", kmsg.ConfigTypeBoolean, "", false, noShareGroups, boolean},
	{"share.auto.offset.reset", "latest", kmsg.ConfigTypeString, "", false, noShareGroups, shareReset},
	{"share.delivery.count.limit", "5", kmsg.ConfigTypeInt, "group.share.delivery.count.limit", false, noShareGroups, integer(32, 2, 10)},
	{"share.heartbeat.interval.ms", "5000", kmsg.ConfigTypeInt, "group.share.heartbeat.interval.ms", false, noShareGroups, integer(32, 5_000, 15_000)},
	{"share.isolation.level", "read_uncommitted", kmsg.ConfigTypeString, "", false, noShareGroups, oneOf("read_committed", "read_uncommitted")},
	{"share.partition.max.record.locks", "2000", kmsg.ConfigTypeInt, "group.share.partition.max.record.locks", false, noShareGroups, integer(32, 100, 10_000)},
	{"share.record.lock.duration.ms", "30000", kmsg.ConfigTypeInt, "group.share.record.lock.duration.ms", false, noShareGroups, integer(32, 15_000, 60_000)},
	{"share.renew.acknowledge.enable", "true", kmsg.ConfigTypeBoolean, "", false, noShareGroups, boolean},
	{"share.session.timeout.ms", "45000", kmsg.ConfigTypeInt, "group.share.session.timeout.ms", false, noShareGroups, integer(32, 45_000, 60_000)},
	{"streams.acceptable.recovery.lag", "10000", kmsg.ConfigTypeLong, "", false, noStreamsGroups, long(0)},
	{"streams.assignment.interval.ms", "1000", kmsg.ConfigTypeInt, "group.streams.assignment.interval.ms", false, noStreamsGroups, integer(32, 0, 15_000)},
	{"streams.assignor.name", "sticky", kmsg.ConfigTypeString, "group.streams.assignors", false, noStreamsGroups, oneOf("sticky")},
	{"streams.assignor.offload.enable", "true", kmsg.ConfigTypeBoolean, "", false, noStreamsGroups, boolean},
	{"streams.heartbeat.interval.ms", "5000", kmsg.ConfigTypeInt, "group.streams.heartbeat.interval.ms", false, noStreamsGroups, integer(32, 5_000, 15_000)},
	{"streams.initial.rebalance.delay.ms", "3000", kmsg.ConfigTypeInt, "group.streams.initial.rebalance.delay.ms", false, noStreamsGroups, int32s(0)},
	{"streams.num.standby.replicas", "0", kmsg.ConfigTypeInt, "group.streams.num.standby.replicas", false, noStreamsGroups, integer(32, 0, 2)},
	{"streams.num.warmup.replicas", "2", kmsg.ConfigTypeInt, "", false, noStreamsGroups, int32s(0)},
	{"streams.rack.aware.assignment.tags", "", kmsg.ConfigTypeList, "group.streams.rack.aware.assignment.tags", false, noStreamsGroups, distinct},
	{"streams.session.timeout.ms", "45000", kmsg.ConfigTypeInt, "group.streams.session.timeout.ms", false, noStreamsGroups, integer(32, 45_000, 60_000)},
	{"streams.task.offset.interval.ms", "60000", kmsg.ConfigTypeInt, "", false, noStreamsGroups, int32s(15_000)},
}

// hiddenSettings are those that Kafka takes and does not show.
var hiddenSettings = map[string]bool{
	"consumer.assignor.offload.enable": true, "share.assignor.offload.enable": true, "streams.assignor.offload.enable": true,
	"streams.acceptable.recovery.lag": true, "streams.num.warmup.replicas": true, "streams.task.offset.interval.ms": true,
}

// distinct accepts a list of words, each at most once.
func distinct(s string) error {
	seen := map[string]bool{}
	for _, w := range list(s) {
		if seen[w] {
			return fmt.Errorf("names %.100q twice", w)
		}
		seen[w] = true
	}
	return nil
}

// isoDuration is a duration of ISO 8601 from days down, not negative.
var isoDuration = regexp.MustCompile(`^P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?$`)

func shareReset(s string) error {
	s = trim(s)
	if s == "latest" || s == "earliest" {
		return nil
	}
	d, ok := strings.CutPrefix(s, "by_duration:")
	if d = strings.ToUpper(d); !ok || !isoDuration.MatchString(d) || strings.HasSuffix(d, "T") || d == "P" {
		return errors.New("must be latest, earliest or by_duration:PnDTnHnMn.nS")
	}
	return nil
}

func deadLetterTopic(s string) error {
	if strings.HasPrefix(trim(s), "__") {
		return errors.New("must not begin with __")
	}
	return nil
}
