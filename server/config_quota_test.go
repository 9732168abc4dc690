package server

import "time"

func quotaKeyRows() map[string]keyRow {
	return map[string]keyRow{
		"quota.window.num":                     {"3", func(c *Config) bool { return c.Quota.Samples == 3 }}, // package quota
		"quota.window.size.seconds":            {"4", func(c *Config) bool { return c.Quota.Sample == 4*time.Second }},
		"controller.quota.window.num":          {"5", func(c *Config) bool { return c.Quota.MutationSamples == 5 }},
		"controller.quota.window.size.seconds": {"6", func(c *Config) bool { return c.Quota.MutationSample == 6*time.Second }},
		"max.connection.creation.rate":         {"7", func(c *Config) bool { return c.MaxConnectionRate == 7 }}, // TestConnectionRates
	}
}
