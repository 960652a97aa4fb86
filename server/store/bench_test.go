package store_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"edgepod/server/store"
)

func benchStore(b *testing.B, objects int) store.Store {
	b.Helper()
	s, err := store.Open(store.Config{Path: filepath.Join(b.TempDir(), "state.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for i := range objects {
		benchWrite(b, s, store.Create, fmt.Sprintf("pod-%05d", i), true)
	}
	return s
}

func benchWrite(b *testing.B, s store.Store, verb store.Verb, name string, volatile bool) {
	value := bytes.Repeat([]byte("x"), 2000)
	_, err := s.Commit(context.Background(), store.Op{
		Verb: verb, Volatile: volatile,
		Key:    store.Key{Resource: "pods", Namespace: "default", Name: name},
		Encode: func(int64) ([]byte, any) { return value, nil },
	})
	if err != nil {
		b.Error(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 32, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s := benchStore(b, 2000)
			var next atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range writers {
				group.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						benchWrite(b, s, store.Update, fmt.Sprintf("pod-%05d", i*7919%2000), false)
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			stats := s.(*store.Bolt).Stats()
			b.ReportMetric(float64(stats.Records)/float64(stats.Commits), "writes/commit")
		})
	}
}

func BenchmarkCommitVolatile(b *testing.B) {
	s := benchStore(b, 2000)
	for i := 0; b.Loop(); i++ {
		benchWrite(b, s, store.Update, fmt.Sprintf("pod-%05d", i%100), true)
	}
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b, 10_000)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			key := store.Key{Resource: "pods", Namespace: "default", Name: fmt.Sprintf("pod-%05d", i%10_000)}
			if _, err := s.Get(context.Background(), key); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkList2000(b *testing.B) {
	s := benchStore(b, 2000)
	for b.Loop() {
		page, err := s.List(context.Background(), store.Query{Resource: "pods", Namespace: "default"})
		if err != nil || len(page.Entries) != 2000 {
			b.Fatalf("got %d entries, %v", len(page.Entries), err)
		}
	}
}

// BenchmarkListBack2000 lists at a revision since when each object has changed.
func BenchmarkListBack2000(b *testing.B) {
	s := benchStore(b, 2000)
	at := s.Revision()
	for i := range 2000 {
		benchWrite(b, s, store.Update, fmt.Sprintf("pod-%05d", i), true)
	}
	for b.Loop() {
		page, err := s.List(context.Background(), store.Query{Resource: "pods", At: at})
		if err != nil || len(page.Entries) != 2000 {
			b.Fatalf("got %d entries, %v", len(page.Entries), err)
		}
	}
}

func BenchmarkWatch100(b *testing.B) {
	s := benchStore(b, 2000)
	var group sync.WaitGroup
	var events atomic.Int64
	for range 100 {
		c, err := s.Watch("pods", "default", s.Revision())
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			for n := 0; n < b.N; {
				got, _, err := c.Next(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				n += len(got)
				events.Add(int64(len(got)))
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		benchWrite(b, s, store.Update, fmt.Sprintf("pod-%05d", i%2000), true)
	}
	group.Wait()
	b.ReportMetric(float64(events.Load())/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkOpen10000(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state.db")
	for i := 0; b.Loop(); i++ {
		s, err := store.Open(store.Config{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if i == 0 {
			for n := range 10_000 {
				benchWrite(b, s, store.Create, fmt.Sprintf("pod-%05d", n), true)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
