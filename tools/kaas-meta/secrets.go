package main

import (
	"encoding/base64"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/projections"
)

// secretsFlag lets a command show what is hidden otherwise, in JSON and YAML.
func (a *app) secretsFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.secrets, "show-secrets", false, "with -o json or yaml: credentials as they are, by which passwords can be guessed at leisure")
}

// credentialState is a credential as dump shows it. Its secrets are in base64.
type credentialState struct {
	User       string    `json:"user"`
	Mechanism  string    `json:"mechanism"`
	Iterations int32     `json:"iterations"`
	Set        time.Time `json:"set"`
	Salt       string    `json:"salt,omitempty"`
	StoredKey  string    `json:"stored_key,omitempty"`
	ServerKey  string    `json:"server_key,omitempty"`
}

func shownCredential(c *projections.ScramCredential, secrets bool) credentialState {
	s := credentialState{User: c.User, Mechanism: c.Mechanism.String(), Iterations: c.Iterations, Set: c.SetAt}
	if secrets {
		s.Salt, s.StoredKey, s.ServerKey = base64.StdEncoding.EncodeToString(c.Salt), base64.StdEncoding.EncodeToString(c.StoredKey), base64.StdEncoding.EncodeToString(c.ServerKey)
	}
	return s
}

func shownCredentials(c *projections.Cluster, secrets bool) (out []credentialState) {
	for _, s := range c.ScramCredentials() {
		out = append(out, shownCredential(s, secrets))
	}
	return out
}

// revealed is an event's data with its secrets.
func revealed(data any) any {
	e, ok := data.(*projections.ScramCredentialSet)
	if !ok {
		return data
	}
	return shownCredential(&projections.ScramCredential{User: e.User, Mechanism: e.Mechanism, Iterations: e.Iterations, Salt: e.Salt,
		StoredKey: e.StoredKey, ServerKey: e.ServerKey, SetAt: time.UnixMilli(e.SetAt).UTC()}, true)
}
