package natstest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Damage flips one bit of the byte at an offset in a text of a stored message, in the newest copy of the text. The text
// must be in the subject, in the headers or in the data. A flipped bit in a sequence number would make the server take
// all memory. Stop the server before.
func (s *Server) Damage(stream, text string, offset int) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir(), "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		s.t.Fatal(err)
	}
	damaged := ""
	var raw []byte
	at := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if i := bytes.LastIndex(data, []byte(text)); i >= 0 {
			damaged, raw, at = file, data, i+offset
		}
	}
	if damaged == "" {
		s.t.Fatalf("natstest: no message of %s has %q", stream, text)
	}
	raw[at] ^= 1 << (offset % 8)
	if err := os.WriteFile(damaged, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Backup stops the server, copies the files of a stream and starts the server again. restore puts the files back in the
// place of those that the stream has then, while the server is stopped.
func (s *Server) Backup(stream string) (restore func()) {
	s.t.Helper()
	s.Stop()
	defer s.Restart()
	kept, files := s.t.TempDir(), filepath.Join(s.Dir(), "jetstream", "$G", "streams", stream)
	if err := os.CopyFS(kept, os.DirFS(files)); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		s.Stop()
		defer s.Restart()
		if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(kept))); err != nil {
			s.t.Fatal(err)
		}
	}
}
