package call

import (
	"time"
)

// Sender is the sender of a call or a service request, according to its subject, which server permissions enforce. For
// a call, Tenant and Actor are names, or "" if a name cannot be decoded from the subject. For a service request, they
// are the encoded tokens of the subject.
type Sender struct {
	Tenant, Actor string
}

// Credential holds the token of a service request, and the user of the connection that sent it, as reported by the NATS
// server; "" if the server does not report it.
type Credential struct {
	Token, User string
	Reply       string // subject of the answer
}

// IncomingRequest is the request of a call as it was received from the bus.
type IncomingRequest struct {
	Subject     string
	From        Sender
	Tool        string // the tool in the subject; "" if it cannot be decoded
	Misnamed    error  // error of subjects.ParseCall for an invalid subject
	ContentType string
	InputRef    string
	Body        []byte
	Reply       string
	Token       string    // of the sender
	Received    time.Time // bus time; set by the caller of Dispatcher.Handle
	// Patient means that the caller needs no acceptance if the outcome comes soon.
	Patient bool
	// Waits notifies the intake that the rest of the handling mostly waits, so that it can pass on the next request of the
	// sender; may be nil.
	Waits func()
}

// OnlyWaits calls Waits if it is not nil.
func (in *IncomingRequest) OnlyWaits() {
	if in.Waits != nil {
		in.Waits()
	}
}

// ReplyAddress returns the address of the answers to the sender.
func (in *IncomingRequest) ReplyAddress() ReplyAddress {
	return ReplyAddress{Reply: in.Reply, ContentType: in.ContentType}
}
