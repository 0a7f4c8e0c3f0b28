package writer

import "github.com/seed-018f16cc/toolbus/subjects"

// Kept returns what a tenant keeps, in bytes.
func (s *Shares) Kept(tenant string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[subjects.Token(tenant)]
}
