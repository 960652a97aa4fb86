# Builds edgepod from source. The final image holds one static file and the certificates of the public authorities.
#
#   docker build -t edgepod .
#   docker run --rm -p 6443:6443 -v edgepod:/data edgepod
#
# It runs as an ordinary user, without privileges: pods are then held by their sandbox's namespaces where the container
# engine permits those, by seccomp, Landlock, rlimits and WASI itself. Limits of memory and cpu by cgroup need a writable
# cgroup (docker run --cgroupns=private --privileged, or a delegated one); `docker run edgepod doctor` tells what holds.
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build && mkdir -p /data /scratch && chown 65532:65532 /data /scratch

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/bin/edgepod /edgepod
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build --chown=65532:65532 /scratch /tmp
USER 65532:65532
ENV EDGEPOD_DATA_DIR=/data
VOLUME /data
EXPOSE 6443
ENTRYPOINT ["/edgepod"]
CMD ["up", "--listen", "0.0.0.0:6443"]
