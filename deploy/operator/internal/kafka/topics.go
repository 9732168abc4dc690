package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicID tells topics of one name apart.
type TopicID [16]byte

// String is the ID as Kafka's tools write it.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Topic is a topic that is there.
type Topic struct {
	ID         TopicID
	Partitions int32
	Configs    map[string]Setting // those that are set for this topic
}

// Setting is what a setting is set to. Brokers may show another text than the one that was
// set, but one of the same meaning.
type Setting struct {
	Value string
	Type  kmsg.ConfigType
}

// Means reports whether the setting is what value says.
func (s Setting) Means(value string) bool { return plainly(s.Type, s.Value) == plainly(s.Type, value) }

func plainly(t kmsg.ConfigType, value string) string {
	value = strings.TrimSpace(value)
	switch t {
	case kmsg.ConfigTypeBoolean:
		return strings.ToLower(value)
	case kmsg.ConfigTypeInt, kmsg.ConfigTypeLong, kmsg.ConfigTypeShort:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case kmsg.ConfigTypeDouble:
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case kmsg.ConfigTypeList:
		return strings.Join(items(value), ",")
	}
	return value
}

// Topic is nil where there is none.
func (c *Cluster) Topic(ctx context.Context, name string) (*Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.client())
	if err == nil && len(resp.Topics) != 1 {
		err = errors.New("the answer is about another topic")
	}
	if err != nil {
		return nil, failed(cause(ctx, err), "", "describe topic %s", name)
	}
	in := &resp.Topics[0]
	switch err := kerr.ErrorForCode(in.ErrorCode); {
	case is(err, kerr.UnknownTopicOrPartition):
		return nil, nil
	case err != nil && !is(err, kerr.LeaderNotAvailable):
		return nil, failed(err, "", "describe topic %s", name)
	}
	out := &Topic{ID: in.TopicID, Partitions: int32(len(in.Partitions))}
	out.Configs, err = c.topicConfigs(ctx, name)
	if is(err, kerr.UnknownTopicOrPartition) { // gone meanwhile
		return nil, nil
	}
	return out, err
}

func (c *Cluster) topicConfigs(ctx context.Context, name string) (map[string]Setting, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.client())
	if err == nil && len(resp.Resources) != 1 {
		err = errors.New("the answer is about another topic")
	}
	if err != nil {
		return nil, failed(cause(ctx, err), "", "describe the settings of topic %s", name)
	}
	if err := code(resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage, "describe the settings of topic %s", name); err != nil {
		return nil, err
	}
	out := map[string]Setting{}
	for _, v := range resp.Resources[0].Configs {
		if v.Source == kmsg.ConfigSourceDynamicTopicConfig && v.Value != nil {
			out[v.Name] = Setting{*v.Value, v.ConfigType}
		}
	}
	return out, nil
}

// CreateTopic makes a topic; partitions of -1 are as many as brokers think right. Of what was
// made the settings are not told.
func (c *Cluster) CreateTopic(ctx context.Context, name string, partitions int32, configs map[string]string) (*Topic, error) {
	set := map[string]*string{}
	for k, v := range configs {
		set[k] = &v
	}
	resp, err := c.admin().CreateTopic(ctx, partitions, -1, set, name)
	if err != nil {
		return nil, failed(cause(ctx, err), resp.ErrMessage, "create topic %s", name)
	}
	return &Topic{ID: TopicID(resp.ID), Partitions: resp.NumPartitions}, nil
}

// AddPartitions gives a topic so many in all.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int32) error {
	resp, err := c.admin().UpdatePartitions(ctx, int(total), name)
	message := ""
	if err == nil {
		r, found := resp[name]
		if err, message = r.Err, r.ErrMessage; !found {
			err = errors.New("the answer is about another topic")
		}
	}
	return failed(cause(ctx, err), message, "give topic %s %d partitions", name, total)
}

// DeleteTopic deletes the topic of this ID; it is no error that there is none.
func (c *Cluster) DeleteTopic(ctx context.Context, name string, id TopicID) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = id
	req.Topics = append(req.Topics, t)
	req.TimeoutMillis = int32(changeTime.Milliseconds())
	resp, err := req.RequestWith(ctx, c.client())
	if err == nil && len(resp.Topics) != 1 {
		err = errors.New("the answer is about another topic")
	}
	if err != nil {
		return failed(cause(ctx, err), "", "delete topic %s", name)
	}
	if err := code(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage, "delete topic %s", name); !is(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition) {
		return err
	}
	return nil
}

// AlterTopic sets settings of a topic, and takes others away.
func (c *Cluster) AlterTopic(ctx context.Context, name string, set map[string]string, reset []string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	op := func(name string, op kmsg.IncrementalAlterConfigOp, value *string) {
		o := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		o.Name, o.Op, o.Value = name, op, value
		r.Configs = append(r.Configs, o)
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := set[k]
		op(k, kmsg.IncrementalAlterConfigOpSet, &v)
	}
	for _, k := range reset {
		op(k, kmsg.IncrementalAlterConfigOpDelete, nil)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.client())
	if err == nil && len(resp.Resources) != 1 {
		err = errors.New("the answer is about another topic")
	}
	if err != nil {
		return failed(cause(ctx, err), "", "alter topic %s", name)
	}
	return code(resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage, "alter topic %s", name)
}
