package server

import (
	"math"
	"time"

	"kaas.dev/kaas/server/quota"
)

// quotaKeys are how the use of clients is measured, and what new connections may come to.
var quotaKeys = []configKey{
	number("quota.window.num", "11", 1, math.MaxInt32, "Samples that make a rate for quotas of bytes, request time and connections.",
		func(c *Config, n int64) { c.Quota.Samples = int(n) }),
	seconds("quota.window.size.seconds", "1", "Time that each of those samples takes.",
		func(c *Config, d time.Duration) { c.Quota.Sample = d }),
	number("controller.quota.window.num", "11", 1, math.MaxInt32, "Samples that quotas of partitions made and deleted are measured over.",
		func(c *Config, n int64) { c.Quota.MutationSamples = int(n) }),
	seconds("controller.quota.window.size.seconds", "1", "Time that each of those samples takes.",
		func(c *Config, d time.Duration) { c.Quota.MutationSample = d }),
	scoped(number("max.connection.creation.rate", "2147483647", 0, quota.Unlimited, "New connections that the broker accepts in a second; further ones wait. For a listener: of those, its own.",
		func(c *Config, n int64) { c.MaxConnectionRate = n }), perListener),
}

func seconds(name, def, doc string, set func(*Config, time.Duration)) configKey {
	return number(name, def, 1, math.MaxInt32, doc, func(c *Config, n int64) { set(c, time.Duration(n)*time.Second) })
}
