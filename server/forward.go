package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// forwardTag is an unknown tag between brokers. A request that carries it was forwarded,
// and is not forwarded again; it says whose it is (origin). In its answer the tag is the position of the answerer's
// view (epoch and sequence, big endian), or empty if it is not the controller.
const forwardTag = 10000

const (
	// findController bounds how long a request waits for there to be a controller.
	findController = 10 * time.Second
	// controllerPause is between two tries.
	controllerPause = 100 * time.Millisecond
	// forwardGrace is how much longer than the request's own time an answer is waited for:
	// the controller says itself that it is over.
	forwardGrace = time.Second
	// awaitShown bounds how long an answer waits for this broker to see the change.
	awaitShown = 5 * time.Second
)

// errHere means that this broker has become the controller.
var errHere = errors.New("this broker is the controller")

// begin starts a request here, or has the controller answer it.
func (s *Server) begin(ctx context.Context, a *api, r *request) (reply, error) {
	if a.wide {
		return s.widely(a, r)
	}
	if !a.forward || onlyLoggers(r.msg) {
		return s.run(ctx, a, r)
	}
	tags := tagsOf(r.msg)
	value, forwarded := tags[forwardTag]
	switch here := s.backend.IsController(); {
	case forwarded:
		if s.believe(r, value); r.refused == nil {
			r.of(tags)
		}
		if r.refused == nil && !here {
			r.refused = kerr.NotController
		}
		rep, err := s.run(ctx, a, r)
		return s.withPosition(rep, r), err
	case here:
		return s.run(ctx, a, r)
	}
	return later(func(ctx context.Context) (kmsg.Response, error) {
		<-r.turn // it comes though the connection ends
		resp, err := s.askController(ctx, r, r.msg)
		if err == nil {
			return resp, nil
		}
		if !errors.Is(err, errHere) {
			r.refused = err
		}
		rep, err := s.run(ctx, a, r)
		if err != nil || rep.wait == nil {
			return rep.resp, err
		}
		return rep.wait(ctx)
	})
}

// withPosition puts into the answer to a broker how far the view is that shows the change.
func (s *Server) withPosition(rep reply, r *request) reply {
	put := func(resp kmsg.Response) {
		value := []byte{}
		if !errors.Is(r.refused, kerr.NotController) {
			value = positionBytes(s.backend.Shown())
		}
		setTag(resp, forwardTag, value)
	}
	if wait := rep.wait; wait != nil {
		rep.wait = func(ctx context.Context) (kmsg.Response, error) {
			resp, err := wait(ctx)
			if resp != nil {
				put(resp)
			}
			return resp, err
		}
	} else if rep.resp != nil {
		put(rep.resp)
	}
	return rep
}

// askController has the controller answer a request, for whoever sent r, and returns when this
// broker's view shows what it changed. An error is why there is no answer; one that is
// kerr.NotController has changed nothing.
func (s *Server) askController(ctx context.Context, r *request, req kmsg.Request) (kmsg.Response, error) {
	limit := alterTimeout
	if t, ok := req.(kmsg.TimeoutRequest); ok {
		limit = time.Duration(max(t.Timeout(), 0)) * time.Millisecond
	}
	began := time.Now()
	for {
		if s.backend.IsController() {
			return nil, errHere
		}
		resp, err := s.askOnce(ctx, r, req, limit-time.Since(began))
		if !errors.Is(err, kerr.NotController) || time.Since(began)+controllerPause > min(limit, findController) {
			return resp, err
		}
		select {
		case <-time.After(controllerPause):
		case <-s.stop:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (s *Server) askOnce(ctx context.Context, r *request, req kmsg.Request, left time.Duration) (kmsg.Response, error) {
	out, err := toForward(origin{r.principal, r.from}, req, left)
	if err != nil {
		return nil, err
	}
	setTag(out, clientTag, r.clientBytes(req))
	ctx, cancel := context.WithTimeout(ctx, max(left, 0)+forwardGrace)
	defer cancel()
	resp, err := s.backend.ToController(ctx, out)
	if err != nil {
		return nil, err
	}
	tags := tagsOf(resp)
	setTags(resp, nil)
	r.slowAsTold(req, tags)
	switch value, ok := tags[forwardTag]; {
	case !ok:
		return resp, nil
	case len(value) == 0:
		return nil, fmt.Errorf("%w: whom this broker takes for it is none", kerr.NotController)
	default:
		s.awaitShown(ctx, value)
		return resp, nil
	}
}

// awaitShown waits for what a client may expect to see once it has its answer. The answer
// holds, whether or not it is seen here in time.
func (s *Server) awaitShown(ctx context.Context, position []byte) {
	if len(position) != 16 {
		return
	}
	pos := substrate.Position{Epoch: substrate.Epoch(binary.BigEndian.Uint64(position)), Seq: binary.BigEndian.Uint64(position[8:])}
	ctx, cancel := context.WithTimeout(ctx, awaitShown)
	defer cancel()
	if err := s.backend.AwaitShown(ctx, pos); err != nil {
		s.log.Warn("a change that was made is not seen here yet", "position", pos.String(), "err", err)
	}
}

func positionBytes(pos substrate.Position) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(pos.Epoch))
	return binary.BigEndian.AppendUint64(b, pos.Seq)
}

// toForward is a copy of a request in its newest version, with whose it is and the time that
// is left.
func toForward(by origin, req kmsg.Request, left time.Duration) (kmsg.Request, error) {
	out := kmsg.RequestForKey(req.Key())
	out.SetVersion(req.GetVersion())
	if err := out.ReadFrom(req.AppendTo(nil)); err != nil {
		return nil, err
	}
	out.SetVersion(out.MaxVersion())
	if d, ok := out.(*kmsg.DeleteTopicsRequest); ok {
		d.Topics = topicsToDelete(d)
	}
	if t, ok := out.(kmsg.SetTimeoutRequest); ok {
		t.SetTimeout(int32(max(left.Milliseconds(), 0)))
	}
	setTag(out, forwardTag, by.bytes())
	return out, nil
}

// Every message has its unknown tags in a field of the same name, and no method for it.
func tagField(msg any) *kmsg.Tags {
	return reflect.ValueOf(msg).Elem().FieldByName("UnknownTags").Addr().Interface().(*kmsg.Tags)
}

func tagsOf(msg any) map[uint32][]byte {
	out := map[uint32][]byte{}
	tagField(msg).Each(func(key uint32, value []byte) { out[key] = value })
	return out
}

func setTags(msg any, tags map[uint32][]byte) {
	*tagField(msg) = kmsg.Tags{}
	for key, value := range tags {
		tagField(msg).Set(key, value)
	}
}

func setTag(msg any, key uint32, value []byte) { tagField(msg).Set(key, value) }
