package server

// UnregisterBroker, key 64, version 0 (KIP-631).
//
// BROKER_ID_NOT_REGISTERED for an ID that is not known. Clients try again after
// REQUEST_TIMED_OUT alone, so that this is the answer while there is no controller.

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var unregisterBrokerAPI = api{key: kmsg.UnregisterBroker, min: 0, max: 0, forward: true, access: onCluster(acl.Alter), start: (*Server).unregisterBroker}

func (s *Server) unregisterBroker(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.UnregisterBrokerRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, alterTimeout)
		defer cancel()
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		err := r.refused
		if err == nil {
			err = s.unregister(ctx, req.BrokerID)
		}
		if errors.Is(err, kerr.NotController) {
			err = fmt.Errorf("%w: there is no controller: %w", kerr.RequestTimedOut, err)
		}
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.UnregisterBroker, err), message(err)
		return resp
	})
}

func (s *Server) unregister(ctx context.Context, id int32) error {
	if _, ok := s.backend.View().Broker(id); !ok {
		return fmt.Errorf("%w: %d", kerr.BrokerIDNotRegistered, id)
	}
	return s.backend.UnregisterBroker(ctx, id)
}
