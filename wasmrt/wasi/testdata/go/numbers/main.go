// Command numbers prints what comes of arithmetic and of the standard library's algorithms, so that engines can be compared.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/big"
	"math/rand"
	"regexp"
	"slices"
	"strings"
)

func main() {
	random := rand.New(rand.NewSource(7))
	text := make([]byte, 1<<16)
	for i := range text {
		text[i] = byte('a' + random.Intn(8))
	}
	fmt.Printf("sha %x %x\n", sha256.Sum256(text), sha512.Sum512(text))
	fmt.Printf("crc %08x\n", crc32.ChecksumIEEE(text))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Close()
	r, err := gzip.NewReader(bytes.NewReader(zipped.Bytes()))
	fmt.Println("gzip", zipped.Len(), err)
	plain, err := io.ReadAll(r)
	fmt.Println("gunzip", bytes.Equal(plain, text), err)
	key := ed25519.NewKeyFromSeed(text[:ed25519.SeedSize])
	fmt.Println("signature", base64.StdEncoding.EncodeToString(ed25519.Sign(key, text)))
	n := new(big.Int).Exp(big.NewInt(3), big.NewInt(5000), nil)
	fmt.Println("power", n.Mod(n, big.NewInt(1_000_000_007)))
	sum := 0.0
	for i := range 100_000 {
		x := random.NormFloat64() * float64(i)
		sum += math.Sin(x) + math.Exp(-x*x) + math.Cbrt(x) + math.FMA(x, x, 1)
	}
	fmt.Printf("floats %x %v %d\n", sum, math.Float32bits(float32(sum)), int64(sum))
	words := strings.Fields(string(bytes.ReplaceAll(text, []byte("a"), []byte(" "))))
	slices.Sort(words)
	counts := map[string]int{}
	for _, word := range words {
		counts[word]++
	}
	encoded, err := json.Marshal(counts)
	fmt.Printf("json %x %v\n", sha256.Sum256(encoded), err)
	fmt.Println("matches", len(regexp.MustCompile(`b+c(d|e)*f`).FindAllIndex(text, -1)))
}
