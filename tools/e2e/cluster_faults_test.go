package e2e

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The makes of clients, each with a topic of its own of one partition.
const (
	ofJava  = "lines-java"
	ofKcat  = "lines-kcat"
	ofFranz = "lines-franz"
)

// TestClientsOutliveBrokers has an idempotent producer of three makes, and for each a
// consumer with auto.offset.reset=none, run through the loss and the stop of brokers. Every
// line is there once and in order, no consumer gets an error, and nothing that clients are
// told goes back.
func TestClientsOutliveBrokers(t *testing.T) {
	need(t, "kcat")
	cp := needJava(t)
	segment := "1048576" // the least that Kafka allows
	c := startCluster(t, "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=1000", "log.segment.bytes="+segment)
	topics := []string{ofJava, ofKcat, ofFranz}
	for _, topic := range topics {
		c.create(topic, 1, nil)
	}
	streams := []*stream{startJava(c, cp), startKcat(c), startFranz(c)}
	watch := startWatch(c, ofFranz)
	c.grows(topics...)
	for _, fault := range []struct {
		name string
		do   func(leader int32)
	}{
		{"kill -9 of a leader", func(leader int32) {
			c.broker(leader).kill()
			c.grows(topics...)
			c.broker(leader).start()
		}},
		{"kill -9 of the controller, which leads", func(int32) {
			leader := c.aController(1)
			c.lead(leader, topics...)
			c.broker(leader).kill()
			c.grows(topics...)
			c.broker(leader).start()
		}},
		{"SIGTERM of a leader", func(leader int32) {
			c.broker(leader).stop()
			c.grows(topics...)
			c.broker(leader).start()
		}},
		{"SIGSTOP of a leader until others lead, and SIGCONT", func(leader int32) {
			c.broker(leader).pause()
			defer c.broker(leader).resume()
			c.grows(topics...)
		}},
		{"a reassignment and back", func(leader int32) {
			c.lead(c.other(leader), topics...)
			c.lead(leader, topics...)
			c.grows(topics...)
		}},
		{"a rolling restart", func(int32) {
			for _, b := range c.brokers {
				b.stop()
				b.start()
				c.settled()
			}
			c.grows(topics...)
		}},
	} {
		leader := c.other(c.controller(1))
		c.lead(leader, topics...)
		began := time.Now()
		fault.do(leader)
		c.settled()
		t.Logf("%s: %v", fault.name, time.Since(began).Round(time.Millisecond))
		raiseStart(c)
	}
	watch.ended(t, 12)
	for _, s := range streams {
		s.ended()
	}
}

// raiseStart deletes what the franz-go consumer has had.
func raiseStart(c *cluster) {
	c.t.Helper()
	had := consumed.Load()
	rs, err := c.admin().DeleteRecords(c.t.Context(), kadm.Offsets{ofFranz: {0: kadm.Offset{Topic: ofFranz, At: had, LeaderEpoch: -1}}})
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		c.t.Errorf("DeleteRecords up to %d: %v", had, err)
	}
}

// consumed is how many records the franz-go consumer has had.
var consumed atomic.Int64

// stream is a producer that is given lines, and a consumer.
type stream struct {
	c     *cluster
	topic string
	lines [][]byte // to send
	quit  chan struct{}
	sent  chan int // how many lines were sent
	// finish has the producer send what it holds, and fails if that was refused.
	finish func()
	// have is what the consumer has had.
	have func() []byte
	// whole has the consumer end, and fails if it has met an error.
	whole func()
}

const (
	linesAtOnce = 20
	lineTicks   = 10 * time.Millisecond
)

// start sends lines at a steady pace until the test has done what it wants to.
func (s *stream) start(send func(line []byte) error) *stream {
	s.lines, s.quit, s.sent = split(text()), make(chan struct{}), make(chan int, 1)
	go func() {
		tick := time.NewTicker(lineTicks)
		defer tick.Stop()
		for n := 0; ; {
			for range linesAtOnce {
				if n == len(s.lines) || send(s.lines[n]) != nil {
					s.c.t.Errorf("%s: the producer took %d lines and no more", s.topic, n)
					s.sent <- n
					return
				}
				n++
			}
			select {
			case <-tick.C:
			case <-s.quit:
				s.sent <- n
				return
			}
		}
	}()
	return s
}

func (s *stream) ended() {
	t := s.c.t
	t.Helper()
	close(s.quit)
	n := <-s.sent
	s.finish()
	s.c.await(s.topic+": all is consumed", func() bool { return bytes.Count(s.have(), []byte("\n")) >= n })
	s.whole()
	t.Logf("%s: %d lines", s.topic, n)
	wantLines(t, split(s.have()), s.lines[:n])
}

// piped is a stream of two commands: one reads lines, one writes them.
func piped(c *cluster, topic string, producer, consumer *exec.Cmd) *stream {
	t := c.t
	in, out := io.Pipe()
	producer.Stdin = in
	p := spawn(t, producer)
	go func() { // what is written after its end must not wait for it
		<-p.done
		in.Close()
	}()
	var got, said lockedBuffer
	consumer.Stdout, consumer.Stderr = &got, &said
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = consumer.Process.Kill() // an error says that it has ended
		_ = consumer.Wait()         // how does not matter: it was killed
		if t.Failed() {
			t.Logf("%s: the producer's last words:\n%s\nthe consumer's:\n%s", topic, tail(p.out.Bytes(), 4096), tail(said.Bytes(), 4096))
		}
	})
	s := &stream{c: c, topic: topic, have: got.Bytes}
	s.finish = func() {
		out.Close()
		p.ended(t)
		// The Java one ends well all the same. kcat tells of every connection that ends.
		if topic == ofJava && bytes.Contains(p.out.Bytes(), []byte("ERROR")) {
			t.Errorf("%s: the producer reports errors:\n%s", topic, tail(p.out.Bytes(), 4096))
		}
	}
	s.whole = func() {
		for _, word := range []string{"% ERROR: Topic", "OutOfRange", "out of range", "Exception"} {
			if bytes.Contains(said.Bytes(), []byte(word)) {
				t.Errorf("%s: the consumer met an error:\n%s", topic, tail(said.Bytes(), 4096))
			}
		}
	}
	return s.start(func(line []byte) error {
		_, err := out.Write(append(line[:len(line):len(line)], '\n'))
		return err
	})
}

func startKcat(c *cluster) *stream {
	return piped(c, ofKcat,
		command(c.t, "kcat", "-P", "-E", "-X", "enable.idempotence=true", "-X", "acks=all", "-X", "linger.ms=5",
			"-X", "socket.timeout.ms=3000", "-X", "api.version.request.timeout.ms=1000", "-b", c.bootstrap(), "-t", ofKcat),
		command(c.t, "kcat", "-C", "-E", "-u", "-q", "-X", "topic.auto.offset.reset=error",
			"-X", "socket.timeout.ms=3000", "-X", "api.version.request.timeout.ms=1000", "-b", c.bootstrap(), "-t", ofKcat, "-p", "0", "-o", "0"))
}

func startJava(c *cluster, cp string) *stream {
	return piped(c, ofJava,
		java(c.t, cp, "ConsoleProducer", "--bootstrap-server", c.bootstrap(), "--topic", ofJava,
			"--message-send-max-retries", "2147483647", "--request-timeout-ms", "3000", "--command-property", "delivery.timeout.ms=120000"),
		java(c.t, cp, "consumer.ConsoleConsumer", "--bootstrap-server", c.bootstrap(), "--topic", ofJava, "--partition", "0", "--offset", "0",
			"--command-property", "auto.offset.reset=none", "--command-property", "request.timeout.ms=3000"))
}

// java is one of Kafka's tools.
func java(t *testing.T, cp, class string, args ...string) *exec.Cmd {
	t.Helper()
	return command(t, "java", append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", cp, "org.apache.kafka.tools." + class}, args...)...)
}

func startFranz(c *cluster) *stream {
	t := c.t
	p := c.newClient(kgo.DefaultProduceTopic(ofFranz), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(time.Second)) // how long a broker that stands still holds it
	var mu sync.Mutex
	var got []byte
	var failed []string
	fail := func(what string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, what+": "+err.Error())
	}
	r := c.newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{ofFranz: {0: kgo.NewOffset().At(0)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	consumed.Store(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fs := r.PollFetches(t.Context())
			if fs.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			fs.EachError(func(_ string, _ int32, err error) { fail("consume", err) })
			mu.Lock()
			fs.EachRecord(func(r *kgo.Record) {
				if r.Offset != consumed.Load() {
					failed = append(failed, "an offset is missing")
				}
				got = append(append(got, r.Value...), '\n')
				consumed.Store(r.Offset + 1)
			})
			mu.Unlock()
		}
	}()
	s := &stream{c: c, topic: ofFranz}
	s.have = func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
	s.finish = func() {
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.whole = func() {
		r.Close()
		<-done
		if len(failed) > 0 {
			t.Errorf("%s: %s", ofFranz, strings.Join(failed, "\n"))
		}
	}
	return s.start(func(line []byte) error {
		p.Produce(t.Context(), &kgo.Record{Value: line}, func(_ *kgo.Record, err error) {
			if err != nil {
				fail("produce", err)
			}
		})
		return nil
	})
}

// lockedBuffer may be read while a command writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}
