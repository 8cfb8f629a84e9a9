# A file server of 50 users: whole files written, extended, read, removed. Parameters of the F2FSJ paper's artifact.
set $nfiles=50000
set $dirwidth=100
set $filesize=128k
set $appendsize=16k
set $iosize=1m
set $nthreads=50
set $count=1600000

define fileset name=share,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=80

define process name=server,instances=1
{
  thread name=user,instances=$nthreads
  {
    flowop createfile name=make,filesetname=share,fd=1
    flowop writewholefile name=write,iosize=$iosize,fd=1
    flowop closefile name=close-make,fd=1
    flowop openfile name=open-extend,filesetname=share,fd=1
    flowop appendfile name=extend,iosize=$appendsize,fd=1
    flowop closefile name=close-extend,fd=1
    flowop openfile name=open-read,filesetname=share,fd=1
    flowop readwholefile name=read,iosize=$iosize,fd=1
    flowop closefile name=close-read,fd=1
    flowop deletefile name=remove,filesetname=share
    flowop statfile name=look,filesetname=share
    flowop finishoncount name=enough,value=$count
  }
}

run 86400
