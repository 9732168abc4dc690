module kaas.dev/kaas/tools/clients

go 1.26.0

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	github.com/rogpeppe/go-internal v1.15.0
	golang.org/x/sync v0.25.0
)

require (
	golang.org/x/sys v0.26.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
