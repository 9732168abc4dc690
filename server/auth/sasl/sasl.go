package sasl

import (
	"errors"
	"fmt"
	"time"
)

// The mechanisms' names.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Names are all mechanisms that are served.
var Names = []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer}

// Mechanism begins exchanges.
type Mechanism interface {
	// Begin begins an exchange. Safe for concurrent use.
	Begin() Exchange
}

// Exchange is one attempt of one client. It is used by one goroutine.
type Exchange interface {
	// Step takes a message of the client's and returns the answer to it, and who the client
	// is once that is proved. An error ends the exchange; of [Refused] the client is told.
	Step(message []byte) (answer []byte, who *User, err error)
}

// User is who has proved what he is.
type User struct {
	Name string
	// Expires is when what he has shown is no longer good; zero if never.
	Expires time.Time
}

// Refused is an error whose text a client is told. Of others it learns no more than that its
// credentials are invalid.
type Refused struct{ Text string }

func (r *Refused) Error() string { return r.Text }

func refusef(format string, a ...any) error { return &Refused{fmt.Sprintf(format, a...)} }

// Told is what a client is told of an error.
func Told(err error, mechanism string, again bool) string {
	var r *Refused
	if errors.As(err, &r) {
		return r.Text
	}
	what := "authentication"
	if again {
		what = "re-authentication"
	}
	return "Authentication failed during " + what + " due to invalid credentials with SASL mechanism " + mechanism
}

var errOver = errors.New("the exchange is over")

// otherID refuses to let a user be another.
func otherID(asked, name string) error {
	if asked == "" || asked == name {
		return nil
	}
	return refusef("Authentication failed: Client requested an authorization id that is different from username")
}
