package transcript

import (
	"context"
	"strings"
)

// pieceSize is how many bytes of paragraphs are polished at once, unless one alone has more: few enough that a model
// answers in time and leaves nothing out.
const pieceSize = 8 << 10

// smoother hands on paragraphs: as they come, or polished, in pieces.
type smoother struct {
	polish Polish // nil is none
	emit   func(paragraph string) error

	waiting []string
	size    int
}

func (s *smoother) add(ctx context.Context, paragraph string) error {
	if s.polish == nil {
		return s.emit(paragraph)
	}
	if s.size+len(paragraph) > pieceSize {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.waiting, s.size = append(s.waiting, paragraph), s.size+len(paragraph)
	return nil
}

// flush polishes what waits and hands it on.
func (s *smoother) flush(ctx context.Context) error {
	if len(s.waiting) == 0 {
		return nil
	}
	text, err := s.polish(ctx, strings.Join(s.waiting, "\n\n"))
	if err != nil {
		return err
	}
	s.waiting, s.size = nil, 0
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph == "" {
			continue
		}
		if err := s.emit(paragraph); err != nil {
			return err
		}
	}
	return nil
}
