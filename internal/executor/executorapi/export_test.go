package executorapi

import "time"

// WaitFor is how long the client waits for one answer.
func (c *Client) WaitFor(answer time.Duration) { c.answer = answer }
