package proxy

import "time"

// Storms returns the kinds of storms.
func Storms() []string { return []string{"acks", "writes", "requests", "work", "everything"} }

// longDelay is longer than any timeout for one answer of the server.
const longDelay = 3 * time.Second

// Storm returns the trouble of a kind of storm, including the background trouble.
func Storm(kind string) Trouble {
	t := Weather(1)
	switch kind {
	case "acks":
		t[PubAck] = Odds{Drop: 0.4, Delay: 0.2, Double: 0.2, Most: longDelay}
	case "writes":
		t[Write] = Odds{Drop: 0.2, Delay: 0.3, Double: 0.3, Most: longDelay}
	case "requests":
		t[Request] = Odds{Drop: 0.2, Delay: 0.2, Double: 0.4, Most: time.Second}
		t[Answer] = Odds{Drop: 0.3, Delay: 0.2, Double: 0.2, Most: time.Second}
		t[Service] = Odds{Drop: 0.2, Delay: 0.2, Double: 0.2, Most: time.Second}
	case "work":
		t[WorkAck] = Odds{Drop: 0.4, Delay: 0.3, Double: 0.2, Most: longDelay}
		t[Beat] = Odds{Drop: 0.3, Delay: 0.3, Most: time.Second}
		t[Control] = Odds{Drop: 0.3, Delay: 0.3, Double: 0.3, Most: time.Second}
		t[Desk] = Odds{Drop: 0.3, Delay: 0.3, Double: 0.3, Most: longDelay}
	case "everything":
		for _, kind := range breakable {
			t[kind] = Odds{Drop: 0.08, Delay: 0.15, Double: 0.15, Most: 500 * time.Millisecond}
		}
		t[Audit] = Odds{Drop: 0.02, Delay: 0.02, Double: 0.02, Most: 500 * time.Millisecond}
	}
	return t
}

// breakable are the kinds of messages that can be lost one by one. Records of AUDIT are sent in batches, which are lost
// as a whole. Deliveries and API requests are lost only with their connection.
var breakable = []Kind{
	Request, Service, Write, PubAck, WorkAck, Answer, Beat, Chunk,
	Control, Desk,
}

// Weather returns the background trouble of a run. often scales the probabilities; 1 is for some dozens of calls per
// second.
func Weather(often float64) Trouble {
	t := Trouble{}
	for _, kind := range breakable {
		t[kind] = Odds{Drop: 0.01 * often, Delay: 0.02 * often, Double: 0.02 * often, Most: 200 * time.Millisecond}
	}
	return t
}
