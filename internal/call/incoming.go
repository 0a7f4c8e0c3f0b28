package call

import (
	"time"
)

// Sender is whoever sent a call or a question, as its subject says, which the bus enforces. Of a call they are names,
// "" where one is too long to be read back from the subject, or no name; of a question they are the tokens of the
// subject, which may be digests of names.
type Sender struct {
	Tenant, Actor string
}

// Credential is what vouches for the sender of a question: the token that its message carries, and the user of the
// server over whose connection it came, as the server says, "" where it does not.
type Credential struct {
	Token, User string
	Reply       string // subject of the answer
}

// IncomingRequest is a call as it came from the bus.
type IncomingRequest struct {
	Subject     string
	From        Sender
	Tool        string // the name in the subject; "" as the names of a Sender
	Misnamed    error  // what in the subject is no name, as no client of ours writes it; see subjects.ParseCall
	ContentType string
	InputRef    string
	Body        []byte
	Reply       string
	Token       string    // of the sender
	Received    time.Time // bus time; whoever hands it to a dispatcher says
	// Patient says that the caller does without an acceptance where the outcome comes soon.
	Patient bool
	// Waits tells the intake that handling it only waits for others from here on, so that the next of its sender may be
	// looked at; nil where nobody wants to know.
	Waits func()
}

// OnlyWaits calls Waits.
func (in *IncomingRequest) OnlyWaits() {
	if in.Waits != nil {
		in.Waits()
	}
}

// ReplyAddress returns where the sender waits.
func (in *IncomingRequest) ReplyAddress() ReplyAddress {
	return ReplyAddress{Reply: in.Reply, ContentType: in.ContentType}
}
