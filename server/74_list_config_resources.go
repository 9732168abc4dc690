package server

// ListConfigResources, key 74, versions 0 and 1 (KIP-1000, KIP-1142).
//
// The names of what can have a configuration: from version 1 topics, brokers, whose names
// their loggers go by, too, and the groups and subscriptions to clients' metrics that
// something is set for, of the types that are asked for, or all; version 0 asks for the
// subscriptions alone. A type that Kafka does not list is UNSUPPORTED_VERSION.

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var listConfigResourcesAPI = api{key: kmsg.ListConfigResources, min: 0, max: 1, wide: true, access: onCluster(acl.DescribeConfigs), start: (*Server).listConfigResources}

var listedResources = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func (s *Server) listConfigResources(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if r.refused != nil {
		resp.ErrorCode = s.failure(kmsg.ListConfigResources, r.refused)
		return now(resp)
	}
	wanted := func(kind kmsg.ConfigResourceType) bool {
		if r.version == 0 {
			return kind == kmsg.ConfigResourceTypeClientMetrics
		}
		return len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(kind))
	}
	for _, kind := range req.ResourceTypes {
		if !slices.Contains(listedResources, kmsg.ConfigResourceType(kind)) {
			resp.ErrorCode = s.failure(kmsg.ListConfigResources, kerr.UnsupportedVersion)
			return now(resp)
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		if !r.room(elementBytes + len(name)) {
			return
		}
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
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger} {
		for _, b := range view.Brokers() {
			if wanted(kind) {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		}
	}
	if wanted(kmsg.ConfigResourceTypeGroupConfig) {
		for _, g := range view.ConfiguredGroups() {
			add(kmsg.ConfigResourceTypeGroupConfig, g)
		}
	}
	if wanted(kmsg.ConfigResourceTypeClientMetrics) {
		for _, name := range view.ClientMetricsNames() {
			add(kmsg.ConfigResourceTypeClientMetrics, name)
		}
	}
	return now(resp)
}
