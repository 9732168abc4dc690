package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// setTo is an edit that replaces all that is set.
func setTo(kv ...string) ConfigEdit {
	return func(*projections.Cluster, map[string]string) (map[string]string, error) {
		next := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			next[kv[i]] = kv[i+1]
		}
		return next, nil
	}
}

// limited has a topic's largest batch taken from its configuration, or the brokers'.
func limited(opt Options) Options {
	opt.PartitionConfig = func(view *projections.Cluster, t *projections.Topic) partition.Config {
		limit := 0
		for _, set := range []map[string]string{t.Configs, view.BrokerConfigs("1"), view.BrokerConfigs("")} {
			for _, key := range []string{"max.message.bytes", "message.max.bytes"} {
				if n, err := strconv.Atoi(set[key]); err == nil && limit == 0 {
					limit = n
				}
			}
		}
		return partition.Config{MaxMessageBytes: limit}
	}
	return opt
}

// takes reports whether partition 0 takes a batch of some 2,000 bytes.
func takes(t *testing.T, b *Broker, id projections.TopicID) bool {
	t.Helper()
	_, err := produce(ctx(t, time.Minute), b, id, strings.Repeat("x", 2000))
	if err != nil && !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatal(err)
	}
	return err == nil
}

// Whoever has the answer to a change finds it acting, from whichever level it comes.
func TestAlterActsBeforeItIsAnswered(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, limited(options(t)))
	topic := create(t, b, "a", 1)
	other := create(t, b, "b", 1)
	c := ctx(t, 5*time.Minute)
	for i, step := range []struct {
		alter       func() error
		mine, their bool // what each takes afterwards
	}{
		{func() error { return b.AlterTopicConfigs(c, topic.ID, setTo("max.message.bytes", "1000"), false) }, false, true},
		{func() error { return b.AlterBrokerConfigs(c, "", setTo("message.max.bytes", "500"), false) }, false, false},
		{func() error { return b.AlterBrokerConfigs(c, "1", setTo("message.max.bytes", "5000"), false) }, false, true},
		{func() error { return b.AlterTopicConfigs(c, topic.ID, setTo(), false) }, true, true},
		{func() error { return b.AlterBrokerConfigs(c, "1", setTo(), false) }, false, false},
		{func() error { return b.AlterBrokerConfigs(c, "", setTo(), false) }, true, true},
	} {
		if err := step.alter(); err != nil {
			t.Fatal(err)
		}
		if mine, their := takes(t, b, topic.ID), takes(t, b, other.ID); mine != step.mine || their != step.their {
			t.Errorf("step %d: %v and %v, want %v and %v", i, mine, their, step.mine, step.their)
		}
	}
}

// A partition that was opened under an older view serves under the newest.
func TestAlterWhilePartitionOpens(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	opt := limited(options(t))
	gate, at := make(chan struct{}), make(chan struct{}, 1)
	opt.open = func(c context.Context, s *substrate.Session, id [16]byte, topic string, index, epoch int32, cfg partition.Config) (*partition.Partition, error) {
		p, err := partition.Open(c, s, id, topic, index, epoch, cfg)
		at <- struct{}{}
		<-gate
		return p, err
	}
	b := start(t, v, opt)
	made := make(chan error, 1)
	go func() {
		_, err := b.CreateTopic(ctx0(time.Minute), TopicSpec{Name: "a", Partitions: 1}, false)
		made <- err
	}()
	<-at
	id := b.View().Topic("a").ID
	err := b.AlterTopicConfigs(ctx(t, time.Minute), id, setTo("max.message.bytes", "1000"), false)
	close(gate)
	if err := errors.Join(err, <-made); err != nil {
		t.Fatal(err)
	}
	if takes(t, b, id) {
		t.Error("the partition goes by the configuration that it was opened with")
	}
}

func TestAlterRefusals(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	c := ctx(t, 5*time.Minute)
	refusal := errors.New("no")
	refuse := func(*projections.Cluster, map[string]string) (map[string]string, error) {
		return nil, fmt.Errorf("%w: %w", kerr.PolicyViolation, refusal)
	}
	for _, only := range []bool{true, false} {
		wantCode(t, "unknown topic", b.AlterTopicConfigs(c, projections.TopicID{9}, setTo(), only), kerr.UnknownTopicOrPartition)
		wantCode(t, "unknown key", b.AlterTopicConfigs(c, topic.ID, setTo("x", "y"), only), kerr.InvalidConfig)
		wantCode(t, "other broker", b.AlterBrokerConfigs(c, "2", setTo(), only), kerr.InvalidRequest)
		wantCode(t, "no group", b.AlterGroupConfigs(c, "", setTo(), only), kerr.InvalidRequest)
		wantCode(t, "no subscription", b.AlterClientMetrics(c, "", setTo(), only), kerr.InvalidRequest)
		wantCode(t, "subscription's unknown key", b.AlterClientMetrics(c, "m", setTo("retention.ms", "1"), only), kerr.InvalidRequest)
		wantCode(t, "group's unknown key", b.AlterGroupConfigs(c, "g", setTo("retention.ms", "1"), only), kerr.InvalidConfig)
		if err := b.AlterTopicConfigs(c, topic.ID, refuse, only); !errors.Is(err, refusal) {
			t.Errorf("the edit's refusal is %v", err)
		}
	}
	if err := b.AlterTopicConfigs(c, topic.ID, setTo("segment.ms", "5"), true); err != nil {
		t.Fatal(err)
	}
	if got := b.View().TopicByID(topic.ID).Configs; len(got) != 0 {
		t.Errorf("validation set %v", got)
	}
}

// Of changes that race, none is lost: each is made on what the one before left.
func TestAltersDoNotOverwriteEachOther(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	together(20, func(i int) {
		if err := b.AlterTopicConfigs(ctx0(time.Minute), topic.ID, addItem(fmt.Sprintf("%d:1", i)), false); err != nil {
			t.Error(err)
		}
	})
	want := b.View().TopicByID(topic.ID).Configs
	if n := len(strings.Split(want[simList], ",")); n != 20 {
		t.Errorf("%d of 20 changes are there: %v", n, want)
	}
	kill(t, b, f)
	v2, _ := mount(t, dir)
	if got := start(t, v2, options(t)).View().TopicByID(topic.ID).Configs; !maps.Equal(got, want) {
		t.Errorf("after a restart: %v", got)
	}
}

// A group's configuration needs no group, and outlives the broker.
func TestAlterGroup(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	c := ctx(t, 5*time.Minute)
	for _, only := range []bool{true, false} {
		if err := b.AlterGroupConfigs(c, "g", setTo("consumer.session.timeout.ms", "50000"), only); err != nil {
			t.Fatal(err)
		}
		if got := b.View().GroupConfig("g"); (len(got) == 0) != only {
			t.Errorf("only validated: %v; set is %v", only, got)
		}
	}
	kill(t, b, f)
	v2, _ := mount(t, dir)
	b = start(t, v2, options(t))
	if got := b.View().GroupConfig("g"); !maps.Equal(got, map[string]string{"consumer.session.timeout.ms": "50000"}) {
		t.Errorf("after a restart: %v", got)
	}
	if err := b.AlterGroupConfigs(c, "g", setTo(), false); err != nil || len(b.View().ConfiguredGroups()) != 0 {
		t.Errorf("taken back: %v, configured are %v", err, b.View().ConfiguredGroups())
	}
}

func TestCreatePartitions(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "a", 2)
	c := ctx(t, 5*time.Minute)
	for _, only := range []bool{true, false} {
		wantCode(t, "unknown", b.CreatePartitions(c, projections.TopicID{9}, 3, only), kerr.UnknownTopicOrPartition)
		for _, n := range []int32{-1, 0, 1, 2, projections.MaxPartitions + 1} {
			wantCode(t, fmt.Sprint(n), b.CreatePartitions(c, topic.ID, n, only), kerr.InvalidPartitions)
		}
	}
	before := mustPartition(t, b, topic.ID, 0)
	if err := b.CreatePartitions(c, topic.ID, 9, false); err != nil {
		t.Fatal(err)
	}
	for i := range int32(9) {
		mustPartition(t, b, topic.ID, i)
	}
	if mustPartition(t, b, topic.ID, 0) != before {
		t.Error("a partition that was there was opened anew")
	}
	if err := b.DeleteTopic(c, topic.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "deleted", b.CreatePartitions(c, topic.ID, 20, false), kerr.UnknownTopicOrPartition)
	eventually(t, "its files are gone", func() bool { return len(b.View().Removing()) == 0 })
}

// A growth that fails half-way changes nothing that clients see, and the next one
// takes what it left; so does the next process, which also removes what was half built.
func TestGrowthThatFails(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	place := filepath.Join("topics", topic.ID.String())
	for name, match := range map[string]func(op, name string) bool{
		"building":   func(op, name string) bool { return op == "mkdir" && strings.HasPrefix(name, place+"/~new~") },
		"publishing": func(op, name string) bool { return op == "write" && strings.HasPrefix(name, "meta/") },
	} {
		if err := os.RemoveAll(filepath.Join(dir, place, "2")); err != nil { // so that it is built in each turn
			t.Fatal(err)
		}
		f.set(func(op, name string) error {
			if match(op, name) {
				return syscall.ENOSPC
			}
			return nil
		})
		err := b.CreatePartitions(ctx(t, time.Minute), topic.ID, 3, false)
		f.heal()
		wantCode(t, name, err, kerr.KafkaStorageError)
		if got := len(b.View().TopicByID(topic.ID).Partitions); got != 1 {
			t.Fatalf("%s: %d partitions", name, got)
		}
	}
	session := b.leading().s.ID()
	kill(t, b, f)
	left := filepath.Join(dir, place, "~new~"+session+"~n1")
	if err := os.MkdirAll(filepath.Join(left, "meta"), 0o755); err != nil {
		t.Fatal(err)
	}
	v2, _ := mount(t, dir)
	b2 := start(t, v2, options(t))
	if err := b2.CreatePartitions(ctx(t, time.Minute), topic.ID, 3, false); err != nil {
		t.Fatal(err)
	}
	for i := range int32(3) {
		mustPartition(t, b2, topic.ID, i)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was half built is still there: %v", err)
	}
}

// A topic that is deleted while it grows is gone, and nothing of it comes back.
func TestDeleteWhileGrowing(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	for range 10 {
		topic := create(t, b, "a", 1)
		var grown atomic.Bool
		together(2, func(i int) {
			if i == 0 {
				if err := b.DeleteTopic(ctx0(time.Minute), topic.ID); err != nil {
					t.Error(err)
				}
				return
			}
			err := b.CreatePartitions(ctx0(time.Minute), topic.ID, 6, false)
			grown.Store(err == nil)
			if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Errorf("grown while deleted: %v", err)
			}
		})
		if b.View().TopicByID(topic.ID) != nil {
			t.Fatalf("the topic lives (grown: %v)", grown.Load())
		}
	}
	eventually(t, "all files are gone", func() bool { return len(topicDirs(t, dir)) == 0 && len(b.View().Removing()) == 0 })
}

// A subscription to clients' metrics is there as long as something is set for it.
func TestAlterClientMetrics(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	c := ctx(t, 5*time.Minute)
	for _, only := range []bool{true, false} {
		if err := b.AlterClientMetrics(c, "m", setTo("interval.ms", "1000"), only); err != nil {
			t.Fatal(err)
		}
		if got := b.View().ClientMetrics("m"); (len(got) == 0) != only {
			t.Errorf("only validated: %v; set is %v", only, got)
		}
	}
	kill(t, b, f)
	v2, _ := mount(t, dir)
	b = start(t, v2, options(t))
	if got := b.View().ClientMetrics("m"); !maps.Equal(got, map[string]string{"interval.ms": "1000"}) {
		t.Errorf("after a restart: %v", got)
	}
	if err := b.AlterClientMetrics(c, "m", setTo(), false); err != nil || len(b.View().ClientMetricsNames()) != 0 {
		t.Errorf("taken back: %v, there are %v", err, b.View().ClientMetricsNames())
	}
}

// The cleaner goes by what a broker's configuration becomes.
func TestAlterReachesTheCleaner(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	opt := options(t)
	opt.Cleaner = &partition.CleanerOptions{Threads: 1}
	opt.CleanerLive = func(view *projections.Cluster) partition.CleanerOptions {
		return partition.CleanerOptions{Threads: 1 + len(view.BrokerConfigs(""))}
	}
	b := start(t, v, opt)
	if err := b.AlterBrokerConfigs(ctx(t, time.Minute), "", setTo("log.cleaner.threads", "2"), false); err != nil {
		t.Fatal(err)
	}
	if got := b.CleanerStats().Threads; got != 2 {
		t.Errorf("%d threads, want 2", got)
	}
}
