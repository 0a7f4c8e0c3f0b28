package proxy

import "time"

// Storms lists the kinds of storms.
func Storms() []string { return []string{"acks", "writes", "requests", "work", "everything"} }

// longDelay is longer than anybody waits for one answer of the server.
const longDelay = 3 * time.Second

// Storm returns the odds of one kind of storm, on top of the weather that there always is.
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

// breakable are the messages of which any may be lost at any time. Records of AUDIT go in batches,
// which are lost as a whole; what the server delivers, and what it is asked for, is only lost with
// its connection.
var breakable = []Kind{
	Request, Service, Write, PubAck, WorkAck, Answer, Beat, Chunk,
	Control, Desk,
}

// Weather is the trouble that there is all the time; often is how often, where 1 is for some dozens of calls a second.
func Weather(often float64) Trouble {
	t := Trouble{}
	for _, kind := range breakable {
		t[kind] = Odds{Drop: 0.01 * often, Delay: 0.02 * often, Double: 0.02 * often, Most: 200 * time.Millisecond}
	}
	return t
}
