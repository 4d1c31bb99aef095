package stage

import (
	"io"
	"math/rand/v2"
	"sync"

	"github.com/google/uuid"
)

var naming sync.Mutex // guards the source of uuids

// Named sets the source of uuids from a seed while start runs, and returns the first uuid. A
// client's uuid is part of all its requests. With a random uuid a run could not be repeated.
func Named(seed, id uint64, start func()) string {
	naming.Lock()
	defer naming.Unlock()
	source := func() io.Reader { return pcgReader{rand.NewPCG(seed, id<<8|6)} }
	uuid.SetRand(source())
	defer uuid.SetRand(nil)
	start()
	id128, _ := uuid.NewRandomFromReader(source())
	return id128.String()
}

type pcgReader struct{ *rand.PCG }

func (r pcgReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.Uint64() & 0xff)
	}
	return len(p), nil
}
