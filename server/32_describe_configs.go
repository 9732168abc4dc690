package server

// DescribeConfigs, key 32, versions 1 to 4.
//
// Topics, this broker and its loggers, by the empty name what is set for all brokers, and
// consumer groups and subscriptions to clients' metrics, whether or not they are there. A null or empty list of names means all. Every
// name is shown with its source; synonyms (where the value comes from, strongest first),
// and from version 3 documentation, only when asked for. An unknown topic is
// UNKNOWN_TOPIC_OR_PARTITION, any other resource INVALID_REQUEST.

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeConfigsAPI = api{key: kmsg.DescribeConfigs, min: 1, max: 4, wide: true, access: checks(right{acl.DescribeConfigs, acl.Cluster}, right{acl.DescribeConfigs, acl.Topic}, right{acl.DescribeConfigs, acl.Group}), start: (*Server).describeConfigs}

func (s *Server) describeConfigs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	asked := distinct(req.Resources, askedConfigs)
	for i := range asked {
		in := &asked[i]
		if !r.room(2*elementBytes + len(in.ResourceName)) {
			break
		}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorMessage = in.ResourceType, in.ResourceName, new(string)
		var values []configValue
		err := r.deniedConfigs(acl.DescribeConfigs, in.ResourceType, in.ResourceName)
		if err == nil {
			values, err = s.configsOf(in)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = s.failure(kmsg.DescribeConfigs, err), message(err)
		}
		for _, v := range values {
			if len(in.ConfigNames) == 0 || slices.Contains(in.ConfigNames, v.name) {
				if !r.room(configBytes(req, v)) {
					return now(resp)
				}
				out.Configs = append(out.Configs, describedConfig(req, v))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return now(resp)
}

// askedConfigs tells apart what is asked for. What stands twice is answered once.
func askedConfigs(in *kmsg.DescribeConfigsRequestResource) string {
	return fmt.Sprintf("%d %q %q", in.ResourceType, in.ResourceName, in.ConfigNames)
}

// configBytes is about what the answer has for a key.
func configBytes(req *kmsg.DescribeConfigsRequest, v configValue) int {
	n := elementBytes + len(v.name) + len(v.value)
	if req.IncludeSynonyms {
		for _, s := range v.synonyms {
			n += elementBytes + len(s.name) + len(s.value)
		}
	}
	if req.IncludeDocumentation {
		n += len(v.doc)
	}
	return n
}

func (s *Server) configsOf(in *kmsg.DescribeConfigsRequestResource) ([]configValue, error) {
	switch in.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := projections.ValidateTopicName(in.ResourceName); err != nil {
			return nil, err
		}
		t := s.backend.View().Topic(in.ResourceName)
		if t == nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		return s.cfg.describeTopic(s.backend.View(), t.Configs), nil
	case kmsg.ConfigResourceTypeBroker:
		if in.ResourceName == "" {
			return describeAllBrokers(s.backend.View()), nil
		}
		if in.ResourceName != s.cfg.id() {
			return nil, fmt.Errorf("%w: %.100q is not this broker", kerr.InvalidRequest, in.ResourceName)
		}
		return s.cfg.describeBroker(s.backend.View()), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if err := s.checkLogger(in.ResourceName); err != nil {
			return nil, err
		}
		return s.cfg.describeLoggers(), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if in.ResourceName == "" {
			return nil, fmt.Errorf("%w: groups have no common configuration", kerr.InvalidRequest)
		}
		return s.cfg.describeGroup(s.backend.View(), s.backend.View().GroupConfig(in.ResourceName)), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if in.ResourceName == "" {
			return nil, fmt.Errorf("%w: subscriptions have no common configuration", kerr.InvalidRequest)
		}
		return describeClientMetrics(s.backend.View().ClientMetrics(in.ResourceName)), nil
	default:
		return nil, fmt.Errorf("%w: resource type %d is not served", kerr.InvalidRequest, in.ResourceType)
	}
}

func describedConfig(req *kmsg.DescribeConfigsRequest, v configValue) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.Source, out.ConfigType, out.ReadOnly = v.name, &v.value, v.source, v.kind, v.readOnly
	out.IsDefault = v.source == kmsg.ConfigSourceDefaultConfig
	secret := v.kind == kmsg.ConfigTypePassword
	if out.IsSensitive = secret; secret {
		out.Value = nil
	}
	if req.IncludeSynonyms {
		for _, s := range v.synonyms {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Source = s.name, s.source
			if !secret {
				syn.Value = &s.value
			}
			out.ConfigSynonyms = append(out.ConfigSynonyms, syn)
		}
	}
	if req.IncludeDocumentation {
		out.Documentation = &v.doc
	}
	return out
}
