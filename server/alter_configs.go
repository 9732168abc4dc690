package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

// alterTimeout is how long a change of configuration is waited for: its requests
// name no time.
const alterTimeout = 30 * time.Second

// mostConfigured bounds how many configurations a request changes, as Kafka's controller does: all
// other changes of the cluster wait for it.
const mostConfigured = 10_000

// inTurn answers a request once all earlier ones of its connection are answered: a client
// that does not wait may count on their order. Requests that change the cluster are among them.
func inTurn(r *request, answer func(context.Context) kmsg.Response) (reply, error) {
	return later(func(ctx context.Context) (kmsg.Response, error) {
		<-r.turn // it comes though the connection ends
		return answer(ctx), nil
	})
}

// configResource is a resource as a request names it.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alteration is what a request asks of one resource.
type alteration struct {
	configResource
	ops     []configOp
	replace bool // what is not named goes back to its default
}

// alterInTurn makes the changes of a request, each resource for itself, and has answer
// put the outcomes into words.
func (s *Server) alterInTurn(r *request, as []alteration, validateOnly bool, answer func([]altered) kmsg.Response) (reply, error) {
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		out := make([]altered, len(as))
		for i, err := range s.alterAll(ctx, r, as, validateOnly) {
			out[i] = altered{as[i].configResource, s.failure(kmsg.Key(r.key), err), r.message(err)}
		}
		return answer(out)
	})
}

// altered is what became of one resource.
type altered struct {
	configResource
	code    int16
	message *string
}

func (s *Server) alterAll(ctx context.Context, r *request, as []alteration, validateOnly bool) []error {
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	times := map[configResource]int{}
	changes := 0
	for _, a := range as {
		times[a.configResource]++
		changes += max(1, len(a.ops))
	}
	refused := r.refused
	if refused == nil && changes > mostConfigured {
		refused = fmt.Errorf("%w: %d changes of configurations are more than the %d that a request makes at most", kerr.PolicyViolation, changes, mostConfigured)
	}
	errs := make([]error, len(as))
	inParallel(len(as), func(i int) {
		if errs[i] = refused; errs[i] != nil {
			return
		}
		if ctx.Err() != nil { // nobody waits for what is not begun
			errs[i] = kerr.RequestTimedOut
			return
		}
		if times[as[i].configResource] > 1 {
			errs[i] = fmt.Errorf("%w: the resource stands twice in the request", kerr.InvalidRequest)
			return
		}
		if errs[i] = r.deniedConfigs(acl.AlterConfigs, as[i].kind, as[i].name); errs[i] == nil {
			errs[i] = s.alterOne(ctx, as[i], validateOnly)
		}
	})
	return errs
}

// deniedConfigs is why who asks may not do something with a configuration, or nil. Those of
// brokers and of clients' metrics are the cluster's.
func (r *request) deniedConfigs(op acl.Operation, kind kmsg.ConfigResourceType, name string) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return r.denied(op, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return r.deniedGroup(op, name)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		return r.deniedCluster(op)
	}
	return nil // there is no such thing, as is told
}

func (s *Server) alterOne(ctx context.Context, a alteration, validateOnly bool) error {
	if err := checkOps(a.ops); err != nil {
		return err
	}
	switch a.kind {
	case kmsg.ConfigResourceTypeTopic:
		return s.alterTopic(ctx, a, validateOnly)
	case kmsg.ConfigResourceTypeBroker:
		if err := s.checkBroker(a.name); err != nil {
			return err
		}
		return s.alterBroker(ctx, a, validateOnly)
	case kmsg.ConfigResourceTypeBrokerLogger:
		return s.alterLoggers(a, validateOnly)
	case kmsg.ConfigResourceTypeGroupConfig:
		edit := s.edit(a, func(_ *projections.Cluster, next map[string]string) error { return s.cfg.checkGroupConfig(next) })
		return s.backend.AlterGroupConfigs(ctx, a.name, edit, validateOnly)
	case kmsg.ConfigResourceTypeClientMetrics:
		edit := s.edit(a, func(_ *projections.Cluster, next map[string]string) error {
			return projections.ValidateClientMetrics(next)
		})
		return s.backend.AlterClientMetrics(ctx, a.name, edit, validateOnly)
	default:
		return fmt.Errorf("%w: resource type %d is not served", kerr.InvalidRequest, a.kind)
	}
}

// checkBroker judges a broker's name: of all together, this one, or any that is registered,
// for the controller does it for all.
func (s *Server) checkBroker(name string) error {
	if name == "" || name == s.cfg.id() {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if _, ok := s.backend.View().Broker(int32(id)); !ok || err != nil || strconv.FormatInt(id, 10) != name {
		return fmt.Errorf("%w: %.100q is no broker", kerr.InvalidRequest, name)
	}
	return nil
}

func (s *Server) alterBroker(ctx context.Context, a alteration, validateOnly bool) error {
	edit := s.edit(a, s.cfg.checkBrokerConfigs)
	err := s.backend.AlterBrokerConfigs(ctx, a.name, edit, validateOnly)
	if err == nil && !validateOnly && s.cfg.in(s.backend.View()).FlushMessages > 1 {
		s.log.Warn(notSynced)
	}
	return err
}

func (s *Server) alterTopic(ctx context.Context, a alteration, validateOnly bool) error {
	if a.name == "" {
		return fmt.Errorf("%w: topics have no common configuration", kerr.InvalidRequest)
	}
	if err := projections.ValidateTopicName(a.name); err != nil {
		return err
	}
	edit, view := s.edit(a, s.cfg.checkTopicConfigs), s.backend.View()
	t := view.Topic(a.name)
	if t == nil { // what no topic could have is told first, as Kafka does
		if _, err := edit(view, nil); err != nil {
			return err
		}
		return fmt.Errorf("%w: topic %q", kerr.UnknownTopicOrPartition, a.name)
	}
	return s.backend.AlterTopicConfigs(ctx, t.ID, edit, validateOnly)
}

// edit makes the changes on what is set when they come to be ordered, and has the
// whole judged.
func (s *Server) edit(a alteration, check func(*projections.Cluster, map[string]string) error) coordinator.ConfigEdit {
	return func(view *projections.Cluster, set map[string]string) (map[string]string, error) {
		if a.replace {
			set = nil
		}
		next, err := applyOps(a.kind, set, a.ops, func(key string) string { return s.cfg.inherited(view, a.kind, a.name, key) })
		if err != nil {
			return nil, err
		}
		if a.kind == kmsg.ConfigResourceTypeBroker {
			return next, check(view, named(next, a.ops))
		}
		return next, check(view, next)
	}
}

// named is the part of a configuration that a request names. What a broker has from
// an earlier build, which knew more, does not stand in the way of a change.
func named(set map[string]string, ops []configOp) map[string]string {
	out := map[string]string{}
	for _, o := range ops {
		if v, ok := set[o.name]; ok {
			out[o.name] = strings.TrimSpace(v)
		}
	}
	return out
}
