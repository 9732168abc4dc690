package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth/sasl"
)

// largeMetadata names so many topics, which are more to keep than to send.
func largeMetadata(topics int) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = make([]kmsg.MetadataRequestTopic, topics)
	for i := range req.Topics {
		req.Topics[i].Topic = kmsg.StringPtr("")
	}
	return req
}

// unanswered is an API whose requests wait for as long as their connections live.
func unanswered(key kmsg.Key, max int16) api {
	return api{key: key, max: max, start: func(*Server, context.Context, *request) (reply, error) {
		return later(func(ctx context.Context) (kmsg.Response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}}
}

// theConn is the only connection of a server.
func theConn(s *Server) (c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c = range s.mu.conns {
	}
	return c
}

// A large request is not taken in while an earlier one of its connection is not answered; small
// ones are, up to some bytes.
func TestLargeRequestsAreNotReadAhead(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	var started []kmsg.Key
	var answer chan struct{}
	note := func(_ *Server, _ context.Context, r *request) (reply, error) {
		started = append(started, kmsg.Key(r.key))
		return now(r.msg.ResponseKind())
	}
	apis = before(api{key: kmsg.Metadata, max: 9, start: note}, api{key: kmsg.Heartbeat, max: 4, start: note}, api{key: kmsg.ListGroups, max: 5,
		start: func(*Server, context.Context, *request) (reply, error) {
			return later(func(context.Context) (kmsg.Response, error) {
				<-answer
				return kmsg.NewPtrListGroupsResponse(), nil
			})
		}})
	group := kmsg.NewPtrHeartbeatRequest()
	group.Group = string(make([]byte, 30_000))
	for name, tc := range map[string]struct {
		behind []kmsg.Request
		first  int // how many of them are started before the first is answered
	}{
		"large":        {[]kmsg.Request{largeMetadata(largeControl / 2)}, 0},
		"small, large": {[]kmsg.Request{kmsg.NewPtrHeartbeatRequest(), largeMetadata(largeControl / 2)}, 1},
		"many small":   {[]kmsg.Request{group, group, group, group, group, group}, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			answer, started = make(chan struct{}), nil
			s := pipeServer(t)
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			go func() {
				_, _ = mine.Write(frame(kmsg.NewPtrListGroupsRequest(), 1))
				for i, req := range tc.behind {
					_, _ = mine.Write(frame(req, int32(i+2)))
				}
			}()
			time.Sleep(2 * pieceTimeout) // who waits for an answer has time for its next request
			synctest.Wait()
			if len(started) != tc.first {
				t.Errorf("%s: %v are started while an earlier one is not answered", name, started)
			}
			close(answer)
			c := &client{t: t, nc: mine}
			for range len(tc.behind) + 1 {
				c.receive()
			}
			synctest.Wait()
			if len(started) != len(tc.behind) {
				t.Errorf("%s: %v were started in the end", name, started)
			}
			mine.Close()
		})
	}
}

// What a large request takes is counted until its answer is made, and then it is forgotten,
// whether or not the answer is read.
func TestLargeRequestsAreForgotten(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	var answer chan struct{}
	apis = before(api{key: kmsg.Metadata, max: 9, start: func(*Server, context.Context, *request) (reply, error) {
		return later(func(context.Context) (kmsg.Response, error) {
			<-answer
			return kmsg.NewPtrMetadataResponse(), nil
		})
	}})
	synctest.Test(t, func(t *testing.T) {
		answer = make(chan struct{})
		s := pipeServer(t)
		mine, theirs := net.Pipe()
		s.take(0, theirs)
		req := largeMetadata(100_000)
		raw := frame(req, 1)
		if _, err := mine.Write(raw); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if used, least := s.decoded.mu.used, int64(16*len(raw)); used < least || used > 200*int64(len(raw)) || s.large.mu.used != 0 {
			t.Errorf("%d bytes of a request hold %d, and %d to be read", len(raw), used, s.large.mu.used)
		}
		close(answer)
		synctest.Wait()
		c := theConn(s)
		if used := s.decoded.mu.used; used != 0 || c.writing == nil || c.writing.req.msg != nil || c.writing.reply.wait != nil {
			t.Errorf("%d bytes are held by a request whose answer is made, or it is there still", used)
		}
		(&client{t: t, nc: mine}).receive()
		mine.Close()
	})
}

// Large requests wait for one another, and for no longer than a while: small ones not at all.
func TestLargeRequestsShareMemory(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(unanswered(kmsg.Metadata, 9), api{key: kmsg.Heartbeat, max: 4, start: func(_ *Server, _ context.Context, r *request) (reply, error) { return now(r.msg.ResponseKind()) }})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "queued.max.request.bytes=4000000")
		ask := func() (first net.Conn, ended chan error) {
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			ended = make(chan error, 1)
			go func() {
				_, _ = mine.Write(frame(largeMetadata(50_000), 1))
				_, err := mine.Read(make([]byte, 1))
				ended <- err
			}()
			synctest.Wait()
			return mine, ended
		}
		first, cut := ask()
		slow := theConn(s)
		began := time.Now()
		time.Sleep(slowReader / 2)
		second, goes := ask()
		held := s.decoded.mu.used
		if took := answered(t, s, kmsg.NewPtrHeartbeatRequest()); took != 0 {
			t.Errorf("a small request of another waits %v", took)
		}
		if err := <-cut; !errors.Is(err, io.EOF) || !errors.Is(context.Cause(slow.ctx), errLongHeld) {
			t.Errorf("%v, %v", err, context.Cause(slow.ctx))
		}
		if took := time.Since(began); took < slowReader || took > slowReader+2*pressAfter {
			t.Errorf("the first goes after %v", took)
		}
		synctest.Wait()
		if used := s.decoded.mu.used; used != held || len(goes) != 0 {
			t.Errorf("%d bytes are held by the first, and then %d by the second", held, used)
		}
		first.Close()
		second.Close()
		time.Sleep(2 * listenTime)
		synctest.Wait()
		if used := s.decoded.mu.used; used != 0 {
			t.Errorf("%d bytes are held by requests that have gone", used)
		}
	})
}

// However many large requests wait for one another, others do not.
func TestLargeRequestsHoldUpNoOthers(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(unanswered(kmsg.Metadata, 9), api{key: kmsg.Heartbeat, max: 4, start: func(_ *Server, _ context.Context, r *request) (reply, error) { return now(r.msg.ResponseKind()) }})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "queued.max.request.bytes=4000000")
		for range 20 {
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			go func() {
				_, _ = mine.Write(frame(largeMetadata(50_000), 1))
				mine.Close()
			}()
			synctest.Wait()
		}
		for _, n := range []int{10, 5000, 30_000} {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group = string(make([]byte, n))
			if took := answered(t, s, req); took != 0 {
				t.Errorf("a request of %d bytes waits %v", n, took)
			}
		}
	})
}

// What any request takes can be told.
func TestWeighsEveryRequest(t *testing.T) {
	for i := range apis {
		a := &apis[i]
		for v := max(a.min, a.works); v <= a.max; v++ {
			msg := kmsg.RequestForKey(int16(a.key))
			msg.SetVersion(v)
			least := int64(11)
			if msg.IsFlexible() {
				setTag(msg, 999, []byte("t"))
				least += tagBytes
			}
			if got := weighs(a, msg, 10); got < least || got > 10+fetchTimes*1000 {
				t.Errorf("%s version %d weighs %d", kmsg.NameForKey(msg.Key()), v, got)
			}
		}
	}
	req := largeMetadata(1000)
	req.Topics[7].Topic = kmsg.StringPtr(string(make([]byte, 5000)))
	if got, least := weighs(&metadataAPI, req, 0), int64(1000*48+5000); got < least || got > 2*least {
		t.Errorf("1000 topics weigh %d", got)
	}
}

// A message without a request around it that claims more than it may have of what waits ends its
// connection in time.
func TestLargeTokenHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := saslServer(t, "sasl.server.max.receive.size=10000000")
		c := s.pipe(t)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Version, req.Mechanism = 0, sasl.Plain
		began := time.Now()
		if code := c.ask(req).(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
			t.Fatalf("error %d", code)
		}
		if _, err := c.nc.Write(binary.BigEndian.AppendUint32(nil, controlMax+1)); err != nil {
			t.Fatal(err)
		}
		_ = c.nc.SetReadDeadline(time.Now().Add(10 * authTimeout))
		c.ended()
		if took := time.Since(began); took > authTimeout {
			t.Errorf("after %v", took)
		}
	})
}

// What a request was is let go once there is an answer, though that has to wait for others.
func TestAnsweredRequestsAreLetGo(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	var held []weak.Pointer[[1 << 20]byte]
	var asked []*request
	apis = before(unanswered(kmsg.Heartbeat, 4), api{key: kmsg.Produce, max: 13, records: true, start: func(_ *Server, _ context.Context, r *request) (reply, error) {
		large := new([1 << 20]byte)
		held, asked = append(held, weak.Make(large)), append(asked, r)
		resp := r.msg.ResponseKind()
		if len(held) == 1 {
			return now(resp)
		}
		return later(func(context.Context) (kmsg.Response, error) {
			large[0] = 1
			return resp, nil
		})
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t)
		mine, theirs := net.Pipe()
		s.take(0, theirs)
		for _, req := range []kmsg.Request{kmsg.NewPtrHeartbeatRequest(), produceReq(-1, "t", newBatch(nil, "a")), produceReq(-1, "t", newBatch(nil, "b"))} {
			if _, err := mine.Write(frame(req, 1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		runtime.GC()
		for i, r := range asked {
			if r.msg != nil || held[i].Value() != nil {
				t.Errorf("request %d is kept until its answer's turn", i)
			}
		}
		if len(asked) != 2 {
			t.Errorf("%d requests", len(asked))
		}
		mine.Close()
	})
}

// A large fetch that waits is answered at once when others wait for the room that it has.
func TestLargeFetchesMakeRoom(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.Fetch, max: 18, start: func(_ *Server, _ context.Context, r *request) (reply, error) {
		return later(func(ctx context.Context) (kmsg.Response, error) {
			select {
			case <-r.hurry:
				return r.msg.ResponseKind(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "queued.max.request.bytes=4000000")
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.Topics = 12, []kmsg.FetchRequestTopic{kmsg.NewFetchRequestTopic()}
		for range 2000 {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.NewFetchRequestTopicPartition())
		}
		began, took := time.Now(), make(chan time.Duration, 2)
		var ncs []net.Conn
		for range cap(took) {
			mine, theirs := net.Pipe()
			ncs = append(ncs, mine)
			s.take(0, theirs)
			go func() {
				_, _ = mine.Write(frame(req, 1))
				_, _ = mine.Read(make([]byte, 1))
				took <- time.Since(began)
			}()
			synctest.Wait()
		}
		if at := <-took; at != pressAfter {
			t.Errorf("the first is answered after %v", at)
		}
		synctest.Wait()
		if len(took) > 0 {
			t.Error("the second does not wait")
		}
		for _, nc := range ncs {
			nc.Close()
		}
	})
}
