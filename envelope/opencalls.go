package envelope

import "time"

// OpenCallsRequest asks for a page of the calls that have no outcome yet, in the order of their admission. They are
// those that the sender has opened. An operator asks for those of a tenant; without Tenant it is the operator's.
type OpenCallsRequest struct {
	Tenant string           `json:"tenant,omitzero"`
	After  LockKillPosition `json:"after,omitzero"` // Next of the answer before; zero at first
}

// OpenCallsResponse is a page of open calls. More means that not all open calls after Next were looked at: a page may
// be empty and not the last.
type OpenCallsResponse struct {
	Calls []OpenCall       `json:"calls"`
	Next  LockKillPosition `json:"next"`
	More  bool             `json:"more,omitzero"`
}

// OpenCall is a call that has no outcome yet. Since is when it was admitted, in bus time.
type OpenCall struct {
	Ref      string    `json:"ref"`
	Tool     string    `json:"tool"`
	Fn       string    `json:"fn"`
	Tenant   string    `json:"tenant"`
	Actor    string    `json:"actor"`
	Attempt  int       `json:"attempt"`
	State    OpenState `json:"state"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
}

// OpenState says whether an executor runs an open call.
type OpenState string

// Values of [OpenState].
const (
	OpenWaiting OpenState = "waiting"
	OpenRunning OpenState = "running"
)
