package server

// ListConfigResources, key 74, versions 0 and 1 (KIP-1000, KIP-1142).
//
// The names of what can have a configuration: from version 1 topics, brokers, and
// the groups that something is set for, of the types that are asked for, or all.
// There are no broker loggers and client metrics to configure, so that these lists
// are empty, and version 0, which asks for client metrics alone, always gets an empty
// one. A type that Kafka does not list is UNSUPPORTED_VERSION.

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var listConfigResourcesAPI = api{key: kmsg.ListConfigResources, min: 0, max: 1, start: (*Server).listConfigResources}

var listedResources = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func (s *Server) listConfigResources(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if r.version == 0 {
		return now(resp)
	}
	wanted := func(kind kmsg.ConfigResourceType) bool {
		return len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(kind))
	}
	for _, kind := range req.ResourceTypes {
		if !slices.Contains(listedResources, kmsg.ConfigResourceType(kind)) {
			resp.ErrorCode = s.failure(kmsg.ListConfigResources, kerr.UnsupportedVersion)
			return now(resp)
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Type, out.Name = int8(kind), name
		resp.ConfigResources = append(resp.ConfigResources, out)
	}
	view := s.backend.View()
	if wanted(kmsg.ConfigResourceTypeTopic) {
		for _, t := range view.Topics() {
			add(kmsg.ConfigResourceTypeTopic, t.Name)
		}
	}
	if wanted(kmsg.ConfigResourceTypeBroker) {
		for _, b := range view.Brokers() {
			add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(b.ID)))
		}
	}
	if wanted(kmsg.ConfigResourceTypeGroupConfig) {
		for _, g := range view.ConfiguredGroups() {
			add(kmsg.ConfigResourceTypeGroupConfig, g)
		}
	}
	return now(resp)
}
