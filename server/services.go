package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"kaas.dev/kaas/server/kube"
)

// findServices is the configuration with the addresses of the load balancers that
// advertised.services names. It waits for them: a broker that cannot say where it is reached
// would send its clients nowhere.
func (c *Config) findServices(ctx context.Context, log *slog.Logger, waiting func(error)) (*Config, error) {
	if len(c.Services) == 0 {
		return c, nil
	}
	services, err := kube.NewServices(log)
	if err != nil {
		return nil, keyError("advertised.services", c.settings["advertised.services"].source, err)
	}
	found := c.clone()
	found.Advertised = slices.Clone(c.Advertised)
	for _, ep := range c.Services {
		host, err := services.Address(ctx, ep.Host, waiting)
		if err != nil {
			return nil, fmt.Errorf("advertised.services: %w", err)
		}
		found.Advertised = append(found.Advertised, Endpoint{Name: ep.Name, Host: host, Port: ep.Port})
	}
	return found, nil
}
