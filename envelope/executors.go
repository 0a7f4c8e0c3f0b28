package envelope

import "time"

// ExecutorsRequest asks for a page of the executors that run now, by pool and instance. After is Next of the answer
// before; "" at first.
type ExecutorsRequest struct {
	After string `json:"after,omitzero"`
}

// ExecutorsResponse is a page of executors. Next is "" on the last page.
type ExecutorsResponse struct {
	Executors []ExecutorInfo `json:"executors"`
	Next      string         `json:"next,omitzero"`
}

// ExecutorInfo describes an executor by its newest heartbeat, which is some seconds old. All members but the first two
// are zero for an executor of an older build.
type ExecutorInfo struct {
	Instance string    `json:"instance"`
	Pool     string    `json:"pool"`
	Version  string    `json:"version,omitzero"` // of Toolbus
	Host     string    `json:"host,omitzero"`    // name of its machine
	PID      int       `json:"pid,omitzero"`     // of its process
	Slots    int       `json:"slots,omitzero"`   // number of calls that it runs at a time
	Running  int       `json:"running"`          // number of calls that it ran
	Since    time.Time `json:"since,omitzero"`   // start of the executor, in bus time
}
